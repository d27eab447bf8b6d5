//! Jain's fairness index: how evenly something is shared among jobs.
//!
//! Follows R. Jain, D. Chiu, W. Hawe, *A quantitative measure of fairness and discrimination for resource
//! allocation in shared computer systems*, DEC-TR-301 (1984). 1 is perfectly even; `k / n` means that it
//! looks as if `k` of `n` jobs shared evenly and the others got nothing.

/// The index of what each job got (throughput, I/O operations); `None` for no jobs, for nothing at all
/// to share, and for what is not a number or negative.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let valid = shares
        .iter()
        .all(|share| share.is_finite() && *share >= 0.0);
    let largest = shares.iter().copied().fold(0.0, f64::max);
    if !valid || largest == 0.0 {
        return None;
    }
    // Relative to the largest, so that squares of bytes per second do not overflow.
    let sum: f64 = shares.iter().map(|share| share / largest).sum();
    let squares: f64 = shares.iter().map(|share| (share / largest).powi(2)).sum();
    Some(sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The property by which the report explains the index: if k of n users share evenly and the others
    // get nothing, it is k/n.
    #[test]
    fn k_of_n_sharing_evenly_gives_k_over_n_as_published() {
        for sharing in [1, 20, 99, 100] {
            let mut shares = vec![0.0; 100];
            shares[..sharing].fill(20.0 / sharing as f64);
            let expected = sharing as f64 / 100.0;
            assert!((jain(&shares).unwrap() - expected).abs() < 1e-12);
        }
    }

    // python3 -c "import numpy as np; x=np.array([50,30,50.]); print(x.sum()**2/(3*(x**2).sum()))"
    #[test]
    fn uneven_shares_agree_with_numpy() {
        assert!((jain(&[50.0, 30.0, 50.0]).unwrap() - 0.954_802_259_887_005_7).abs() < 1e-12);
    }

    #[test]
    fn nothing_to_share_has_no_fairness() {
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[1.0, -1.0]), None);
        assert_eq!(jain(&[1.0, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn the_unit_does_not_matter_and_the_index_stays_in_its_range(
            shares in prop::collection::vec(0.001f64..1000.0, 1..20), unit in 1e-9f64..1e200,
        ) {
            let index = jain(&shares).unwrap();
            let scaled: Vec<f64> = shares.iter().map(|share| share * unit).collect();
            prop_assert!((jain(&scaled).unwrap() - index).abs() < 1e-9);
            prop_assert!(index <= 1.0 + 1e-12 && index >= 1.0 / shares.len() as f64 - 1e-12);
        }
    }
}
