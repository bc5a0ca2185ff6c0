//! The server of the benchmark, on this host's loopback. It does the timing: a guest that is emulated has a clock
//! of its own mind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::bench_boot::{Outcome, text};

const BLOCK: usize = 64 << 10;
/// A transfer of two gigabytes, emulated.
const PATIENCE: Duration = Duration::from_mins(4);

pub struct Server {
    pub port: u16,
    seen: Mutex<Receiver<Seen>>,
    /// Connections that are open now, and most that ever were.
    open: Arc<[AtomicUsize; 2]>,
}

/// What the server saw of one thing that the guest did.
pub enum Seen {
    /// Bytes from the first to the last, and how long they took.
    Moved(u64, Duration),
    /// How long an answer took, each time.
    Echoes(Vec<Duration>),
    /// When one small request came, and when it was over.
    One(Instant, Instant),
}

impl Server {
    pub fn start() -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| text(&error))?;
        let port = listener.local_addr().map_err(|error| text(&error))?.port();
        let (tell, seen) = channel();
        let open = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let counts = Arc::clone(&open);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let came = Instant::now();
                let (tell, counts) = (tell.clone(), Arc::clone(&counts));
                let now = counts[0].fetch_add(1, Ordering::Relaxed) + 1;
                counts[1].fetch_max(now, Ordering::Relaxed);
                std::thread::spawn(move || {
                    // Whoever waits for what is told misses it.
                    let _ = serve(&stream, came, &tell);
                    counts[0].fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Ok(Self { port, seen: Mutex::new(seen), open })
    }

    /// What the guest did next, as it was seen here.
    pub fn next(&self) -> Outcome<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.recv_timeout(PATIENCE).map_err(|_| "the guest did not do what it was told".into())
    }

    /// Most connections that were open at once since the last look.
    pub fn most_open(&self) -> usize {
        self.open[1].swap(0, Ordering::Relaxed)
    }
}

fn serve(stream: &TcpStream, came: Instant, tell: &Sender<Seen>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(BLOCK, stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.trim_matches('\u{1}').split_whitespace();
    let first = words.next().unwrap_or_default();
    let count = words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
    let seen = match first {
        "up" => {
            let begin = Instant::now();
            let got = drain(&mut reader, Some(count))?;
            let seen = Seen::Moved(got, begin.elapsed());
            (&*stream).write_all(b"k")?;
            seen
        }
        "down" => {
            let (block, begin) = (vec![b'x'; BLOCK], Instant::now());
            let mut left = count;
            while left > 0 {
                let length = usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK));
                (&*stream).write_all(&block[..length])?;
                left -= length as u64;
            }
            stream.shutdown(std::net::Shutdown::Write)?;
            // The guest ends the connection once it has all.
            drain(&mut reader, None)?;
            Seen::Moved(count, begin.elapsed())
        }
        "echo" => {
            let mut times = Vec::new();
            for _ in 0..count {
                let begin = Instant::now();
                (&*stream).write_all(b"e")?;
                reader.read_exact(&mut [0])?;
                times.push(begin.elapsed());
            }
            Seen::Echoes(times)
        }
        "one" => {
            (&*stream).write_all(b"ok\n")?;
            drain(&mut reader, None)?;
            Seen::One(came, Instant::now())
        }
        "POST" => posted(&mut reader, stream)?,
        _ => return Ok(()),
    };
    let _ = tell.send(seen);
    Ok(())
}

/// Reads `count` bytes, or all there are.
fn drain(reader: &mut impl Read, count: Option<u64>) -> std::io::Result<u64> {
    let mut block = vec![0; BLOCK];
    let mut got = 0;
    while count.is_none_or(|count| got < count) {
        match reader.read(&mut block)? {
            0 => break,
            length => got += length as u64,
        }
    }
    Ok(got)
}

/// One request over HTTP with a body, whose length it says.
fn posted(reader: &mut BufReader<&TcpStream>, stream: &TcpStream) -> std::io::Result<Seen> {
    let mut length = 0;
    let begin = Instant::now();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let got = drain(reader, Some(length))?;
    let took = begin.elapsed();
    let answer = format!("{got}\n");
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", answer.len());
    (&*stream).write_all((head + &answer).as_bytes())?;
    Ok(Seen::Moved(got, took))
}
