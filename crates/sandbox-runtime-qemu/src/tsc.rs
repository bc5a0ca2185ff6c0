//! The rate of the host's time stamp counter, which an emulated guest reads as its own.
//!
//! A guest on `microvm` has no timer to calibrate against that is reliable under emulation, and hangs
//! there now and then; `tsc_early_khz=` on its command line spares it. No unprivileged interface of the
//! kernel tells the rate: `/proc/cpuinfo` shows the core's present clock, and CPUID leaf 0x15 is empty on
//! AMD and in most virtual machines. So it is measured.

use std::time::{Duration, Instant};

/// Both clocks are read to some 50 nanoseconds: the rate is right to some 20 millionths.
const LONG_ENOUGH: Duration = Duration::from_millis(5);

/// A measurement that goes on while its owner does something else.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    began: Instant,
    first: (u64, i128),
}

impl Measurement {
    /// The first reading. Ask for the rate as late as possible: what has passed by then need not be waited
    /// for.
    pub fn begin() -> Self {
        Self { began: Instant::now(), first: measure::reading() }
    }

    /// The counter's rate in kHz; waits where it has not been measured for [`LONG_ENOUGH`]. `None` when the counter
    /// stands still, or runs at a rate that no processor has.
    pub fn khz(self) -> Option<u64> {
        std::thread::sleep(LONG_ENOUGH.saturating_sub(self.began.elapsed()));
        let (last_ticks, last_nanos) = measure::reading();
        measure::rate(last_ticks.wrapping_sub(self.first.0), last_nanos - self.first.1)
    }
}

mod measure {
    #![allow(unsafe_code)]

    use std::arch::x86_64::_rdtsc;

    use rustix::time::{ClockId, clock_gettime};

    fn ticks() -> u64 {
        // SAFETY: every x86_64 processor has the instruction; a kernel that forbids it to processes
        // (PR_TSC_SIGSEGV) does so only for those that asked.
        unsafe { _rdtsc() }
    }

    /// The clock that the kernel itself derives from the counter, without NTP's corrections.
    fn nanos() -> i128 {
        let now = clock_gettime(ClockId::MonotonicRaw);
        i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
    }

    /// Both clocks at one moment: of several tries, the one with the least time between two readings of
    /// the counter around the clock's.
    pub(super) fn reading() -> (u64, i128) {
        let tries = (0..32).map(|_| {
            let before = ticks();
            let nanos = nanos();
            let width = ticks().wrapping_sub(before);
            (width, before.wrapping_add(width / 2), nanos)
        });
        tries.min_by_key(|(width, ..)| *width).map_or((0, 0), |(_, ticks, nanos)| (ticks, nanos))
    }

    /// `None` when the counter stood still or moved at a rate that no processor has.
    pub(super) fn rate(ticks: u64, nanos: i128) -> Option<u64> {
        let nanos = u128::try_from(nanos).ok().filter(|nanos| *nanos > 0)?;
        let khz = (u128::from(ticks) * 1_000_000 + nanos / 2) / nanos;
        u64::try_from(khz).ok().filter(|khz| (100_000..20_000_000).contains(khz))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_agree_within_a_thousandth() {
        let first = Measurement::begin().khz().unwrap();
        let second = Measurement::begin();
        std::thread::sleep(Duration::from_millis(50));
        let second = second.khz().unwrap();
        assert!(first.abs_diff(second) * 1000 < first, "{first} kHz, then {second} kHz");
    }

    #[test]
    fn a_rate_is_ticks_by_time() {
        assert_eq!(measure::rate(51_922_760, 20_000_000), Some(2_596_138));
        assert_eq!(measure::rate(0, 20_000_000), None);
        assert_eq!(measure::rate(51_922_760, 0), None);
        assert_eq!(measure::rate(51_922_760, -5), None);
    }
}
