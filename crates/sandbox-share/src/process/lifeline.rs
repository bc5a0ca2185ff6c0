//! Living no longer than the parent.
//!
//! The parent is watched through a descriptor of its process, not by its death signal: that signal
//! already comes when the *thread* that started this process ends. The two processes that the sandbox
//! consists of are tied to each other by the kernel instead.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, Signal, getppid, pidfd_open, set_parent_process_death_signal};

use crate::error::ShareError;

/// The process that started this one.
#[derive(Debug)]
pub(crate) struct Parent {
    process: OwnedFd,
}

impl Parent {
    pub(crate) fn find() -> Result<Self, ShareError> {
        let parent = getppid().ok_or(ShareError::NoParent)?;
        let process = pidfd_open(parent, PidfdFlags::empty()).map_err(ShareError::Lifeline)?;
        Ok(Self { process })
    }

    /// Waits until someone connects to `listener`. With a deadline, because a parent that ended before
    /// this process could look for it is never seen to end.
    pub(crate) fn await_connection(
        &self,
        listener: &UnixListener,
        within: Duration,
    ) -> Result<(), ShareError> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(|_| ShareError::Lifeline(Errno::INVAL))?;
            let mut waiting =
                [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.process, PollFlags::IN)];
            match poll(&mut waiting, Some(&timeout)) {
                Ok(0) => return Err(ShareError::NobodyConnected { seconds: within.as_secs() }),
                Ok(_) if !waiting[1].revents().is_empty() => return Err(ShareError::ParentEnded),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(ShareError::Lifeline(error)),
            }
        }
    }

    /// Ends this process when the parent ends. The watch is a thread, so it starts after the sandbox.
    pub(crate) fn watch(self) -> Result<(), ShareError> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(ShareError::Lifeline)?;
        epoll::add(&set, &self.process, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
            .map_err(ShareError::Lifeline)?;
        let watch = move || {
            let _process = self.process;
            let mut events = Vec::with_capacity(1);
            loop {
                match epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None) {
                    Ok(0) | Err(Errno::INTR) => {}
                    // A watch that fails must not leave an orphan either.
                    Ok(_) | Err(_) => std::process::exit(1),
                }
            }
        };
        let thread = std::thread::Builder::new().name("lifeline".to_owned()).spawn(watch);
        thread.map(drop).map_err(|error| ShareError::Backend { reason: error.to_string() })
    }
}

/// Ties the process inside the sandbox to the one that waits outside for it.
#[derive(Debug)]
pub(crate) struct Tie {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Tie {
    /// To be made before the sandbox forks.
    pub(crate) fn new() -> Result<Self, ShareError> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(ShareError::Lifeline)?;
        Ok(Self { ours, theirs })
    }

    /// In the process inside: from now on the kernel ends it together with the one outside. In a
    /// process-id namespace of its own it ignores every signal but this one.
    pub(crate) fn fasten(self) -> Result<(), ShareError> {
        drop(self.theirs);
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(ShareError::Lifeline)?;
        // The process outside holds the other end for as long as it lives.
        let mut ends = [PollFd::from_borrowed_fd(self.ours.as_fd(), PollFlags::IN)];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut ends, Some(&none)) {
            Ok(0) => Ok(()),
            Ok(_) => Err(ShareError::ParentEnded),
            Err(error) => Err(ShareError::Lifeline(error)),
        }
    }
}
