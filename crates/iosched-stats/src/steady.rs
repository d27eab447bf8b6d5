//! Has a series of rounds reached its steady state? The window rule for solid-state storage.
//!
//! Follows SNIA, *Solid State Storage Performance Test Specification* 2.0.2 (2020), "steady state": in a
//! window of five rounds the largest and the smallest value differ by at most 20 % of the window's mean,
//! and the least-squares line changes by at most 10 % of the mean from the first to the last round.
//! Left out: the specification's limit of 25 rounds, which is the caller's budget.

use serde::{Deserialize, Serialize};

/// The limits of a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Rounds in a window.
    pub rounds: usize,
    /// Largest difference between two values, relative to their mean.
    pub excursion: f64,
    /// Largest change of the fitted line over the window, relative to the mean.
    pub slope: f64,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            rounds: 5,
            excursion: 0.20,
            slope: 0.10,
        }
    }
}

/// A window as measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Window {
    /// Number of the window's first value in the series.
    pub first: usize,
    /// Mean of its values.
    pub mean: f64,
    /// (largest - smallest) / mean.
    pub excursion: f64,
    /// Change of the least-squares line from the first to the last round / mean; with its sign.
    pub slope: f64,
}

impl Rule {
    /// Measures the window that starts at `first`; `None` if the series is too short for it, or its
    /// mean is not positive.
    pub fn window(&self, values: &[f64], first: usize) -> Option<Window> {
        assert!(self.rounds >= 2, "a line needs two rounds");
        let values = values.get(first..first + self.rounds)?;
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        if mean.is_nan() || mean <= 0.0 {
            return None;
        }
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let middle = (n - 1.0) / 2.0;
        let (mut products, mut squares) = (0.0, 0.0);
        for (round, value) in values.iter().enumerate() {
            let distance = round as f64 - middle;
            products += distance * (value - mean);
            squares += distance * distance;
        }
        Some(Window {
            first,
            mean,
            excursion: (largest - smallest) / mean,
            slope: products / squares * (n - 1.0) / mean,
        })
    }

    /// True if the window keeps both limits.
    pub fn holds(&self, window: &Window) -> bool {
        window.excursion <= self.excursion && window.slope.abs() <= self.slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // import numpy as np; y = [1000, 1080, 950, 1010, 1030]; b, a = np.polyfit(range(5), y, 1)
    // print(np.mean(y), np.ptp(y)/np.mean(y), 4*b/np.mean(y))
    #[test]
    fn a_window_agrees_with_numpy() {
        let values = [1000.0, 1080.0, 950.0, 1010.0, 1030.0];
        let window = Rule::default().window(&values, 0).unwrap();
        assert!((window.mean - 1014.0).abs() < 1e-9);
        assert!((window.excursion - 130.0 / 1014.0).abs() < 1e-12);
        assert!((window.slope + 4.0 / 1014.0).abs() < 1e-12);
        assert!(Rule::default().holds(&window));
    }

    #[test]
    fn a_flash_disk_that_falls_from_its_fresh_speed_is_steady_only_at_the_end() {
        let values = [
            9000.0, 8800.0, 6000.0, 4100.0, 3300.0, 3050.0, 3010.0, 2990.0, 3020.0, 3000.0,
        ];
        let rule = Rule::default();
        let is_steady = |first: usize| {
            rule.window(&values, first)
                .map(|window| rule.holds(&window))
        };
        let windows: Vec<_> = (0..=6).map(is_steady).collect();
        let (no, yes) = (Some(false), Some(true));
        assert_eq!(windows, [no, no, no, no, yes, yes, None]);
    }

    #[test]
    fn a_slope_within_the_excursion_is_not_steady() {
        let rising = [93.0, 96.5, 100.0, 103.5, 107.0];
        let window = Rule::default().window(&rising, 0).unwrap();
        assert!(window.excursion < 0.20 && window.slope > 0.10);
        assert!(!Rule::default().holds(&window));
    }

    #[test]
    fn limits_are_included() {
        // Mean 100, largest - smallest exactly 20 %, slope 0.
        let values = [100.0, 110.0, 100.0, 90.0, 100.0];
        let window = Rule::default().window(&values, 0).unwrap();
        assert!((window.slope.abs() - 0.08).abs() < 1e-12);
        assert!(Rule::default().holds(&window));
    }

    #[test]
    fn too_few_rounds_are_never_steady() {
        assert_eq!(Rule::default().window(&[1.0; 4], 0), None);
        assert_eq!(Rule::default().window(&[], 0), None);
    }
}
