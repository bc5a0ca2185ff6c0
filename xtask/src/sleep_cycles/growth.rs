use std::collections::BTreeMap;
use std::fmt;

/// Caches fill up in the first cycles. What is seen in them is what may be seen later.
const SETTLED: usize = 5;

/// Numbers that must not grow, by name.
#[derive(Default)]
pub struct Growth(BTreeMap<String, Figure>);

struct Figure {
    /// The most while it settled.
    begin: u64,
    most: u64,
    last: u64,
    first_cycle: usize,
    last_cycle: usize,
}

/// How much more than at the begin is no growth: allocators and caches breathe.
fn allowance(name: &str, begin: u64) -> u64 {
    if name.starts_with("saved memory") || name.starts_with("disk usage") {
        begin / 2 + (64 << 10)
    } else if name.contains("guest's memory") {
        128 << 10
    } else if name.contains(".log") {
        // Each is bounded by itself.
        2 << 10
    } else if name.contains(": processes") && !name.contains("guest") {
        0
    } else if name.contains("KiB") {
        begin / 2 + (16 << 10)
    } else {
        8
    }
}

impl Growth {
    pub fn note(&mut self, cycle: usize, name: String, value: u64) {
        let figure = self.0.entry(name).or_insert(Figure {
            begin: value,
            most: value,
            last: value,
            first_cycle: cycle,
            last_cycle: cycle,
        });
        if cycle <= SETTLED {
            figure.begin = figure.begin.max(value);
        }
        figure.most = figure.most.max(value);
        (figure.last, figure.last_cycle) = (value, cycle);
    }

    /// Fails at what has grown, or appeared after everything had settled.
    pub fn check(&self, cycle: usize) -> Result<(), String> {
        for (name, figure) in self.0.iter().filter(|(_, figure)| figure.last_cycle == cycle) {
            if figure.first_cycle > SETTLED {
                return Err(format!("cycle {cycle}: {name}: {}, which was not there before", figure.last));
            }
            if figure.last > figure.begin + allowance(name, figure.begin) {
                return Err(format!("cycle {cycle}: {name}: {}, at first {}", figure.last, figure.begin));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<40} {:>12} {:>12} {:>12}", "", "first 5", "last", "most")?;
        for (name, figure) in &self.0 {
            writeln!(f, "{name:<40} {:>12} {:>12} {:>12}", figure.begin, figure.last, figure.most)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[u64]) -> Result<(), String> {
        let mut growth = Growth::default();
        for (index, value) in values.iter().enumerate() {
            growth.note(index + 1, "keeper: descriptors".into(), *value);
            growth.check(index + 1)?;
        }
        Ok(())
    }

    #[test]
    fn one_more_each_time_is_growth_and_breathing_is_none() {
        assert_eq!(seen(&[10, 14, 11, 12, 10, 13, 15, 11, 16]), Ok(()));
        let growing: Vec<u64> = (1..=20).collect();
        assert_eq!(seen(&growing), Err("cycle 14: keeper: descriptors: 14, at first 5".into()));
    }

    #[test]
    fn what_appears_late_is_growth() {
        let mut growth = Growth::default();
        growth.note(5, "a.log, KiB".into(), 1);
        growth.note(6, "left-over, KiB".into(), 1);
        assert!(growth.check(5).is_ok());
        assert!(growth.check(6).is_err());
    }
}
