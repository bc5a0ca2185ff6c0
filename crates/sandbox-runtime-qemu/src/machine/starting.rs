//! A start can be called off, but for the moments in which what a waking guest was at is in its own memory alone.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::GRACE;
use super::serve::{Ended, Order};

/// What became of a start.
#[derive(Debug)]
pub enum Start<T> {
    /// It went its way. Where it was called off meanwhile, the machine ends next.
    Over(T, Option<CallOff>),
    /// It was dropped; its sender waits to hear of it.
    Dropped(Option<oneshot::Sender<Ended>>),
}

/// Somebody wants the end of a machine that is not up yet.
#[derive(Debug)]
pub struct CallOff {
    pub grace: Duration,
    pub sleep: bool,
    pub done: Option<oneshot::Sender<Ended>>,
}

/// Drives `start` to its end, or drops it when somebody wants that: not while it is `fragile`, unless by a kill.
pub async fn until_started<T>(
    start: impl Future<Output = T>,
    mut fragile: watch::Receiver<bool>,
    orders: &mut mpsc::Receiver<Order>,
    host_ends: impl Future<Output = ()>,
) -> Start<T> {
    tokio::pin!(start, host_ends);
    let mut called_off: Option<CallOff> = None;
    loop {
        let next = tokio::select! {
            outcome = &mut start => return Start::Over(outcome, called_off),
            Some(order) = orders.recv() => match order {
                Order::Kill { done } => return Start::Dropped(Some(done)),
                Order::Stop { grace_millis, sleep, done } => {
                    CallOff { grace: Duration::from_millis(grace_millis), sleep, done: Some(done) }
                }
            },
            () = &mut host_ends, if called_off.is_none() => CallOff { grace: GRACE, sleep: true, done: None },
            // It did not wake after all, and is about to boot: for nobody.
            Ok(_) = fragile.wait_for(|fragile| !fragile), if called_off.is_some() => {
                return Start::Dropped(called_off.and_then(|called_off| called_off.done));
            }
        };
        if !*fragile.borrow() {
            return Start::Dropped(next.done);
        }
        // The senders of further ones wait for the end like the first one's does.
        called_off.get_or_insert(next);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn stop() -> (Order, oneshot::Receiver<Ended>) {
        let (done, told) = oneshot::channel();
        (Order::Stop { grace_millis: 5, sleep: true, done }, told)
    }

    #[tokio::test]
    async fn what_has_used_up_nothing_is_dropped_at_once() {
        let (_sender, fragile) = watch::channel(false);
        let (orders, mut received) = mpsc::channel(4);
        orders.send(stop().0).await.unwrap();
        let ended = until_started(pending::<()>(), fragile.clone(), &mut received, pending()).await;
        assert!(matches!(ended, Start::Dropped(Some(_))), "{ended:?}");
        let ended = until_started(pending::<()>(), fragile, &mut received, async {}).await;
        assert!(matches!(ended, Start::Dropped(None)), "{ended:?}");
    }

    #[tokio::test]
    async fn a_guest_that_has_nothing_but_its_memory_wakes_first() {
        let (sender, fragile) = watch::channel(true);
        let (orders, mut received) = mpsc::channel(4);
        let (awake, wakes) = oneshot::channel();
        let waking = async { wakes.await.unwrap() };
        orders.send(stop().0).await.unwrap();
        orders.send(stop().0).await.unwrap();
        let rouser = async {
            // Both have been seen by then.
            while orders.capacity() < 4 {
                tokio::task::yield_now().await;
            }
            awake.send("awake").unwrap();
        };
        let (ended, ()) =
            tokio::join!(until_started(waking, fragile.clone(), &mut received, pending()), rouser);
        let Start::Over("awake", Some(called_off)) = ended else { panic!("{ended:?}") };
        assert!(called_off.sleep && called_off.done.is_some() && called_off.grace.as_millis() == 5);

        // The host's end is none for it either, and a kill is.
        let wakes = async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        };
        let ended = until_started(wakes, fragile.clone(), &mut received, async {}).await;
        let by_host = |off: &CallOff| off.sleep && off.done.is_none();
        assert!(matches!(&ended, Start::Over((), Some(off)) if by_host(off)), "{ended:?}");
        let (done, _told) = oneshot::channel();
        orders.send(Order::Kill { done }).await.unwrap();
        let ended = until_started(pending::<()>(), fragile.clone(), &mut received, async {}).await;
        assert!(matches!(ended, Start::Dropped(Some(_))), "{ended:?}");

        // One that fails to wake would boot.
        let fails = async {
            tokio::task::yield_now().await;
            sender.send_replace(false);
        };
        let (ended, ()) =
            tokio::join!(until_started(pending::<()>(), fragile, &mut received, async {}), fails);
        assert!(matches!(ended, Start::Dropped(None)), "{ended:?}");
    }
}
