//! For tests: a fleet of machines whose truth is known. What each measures is drawn from a seed and reduced as a record is.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::load_class::LoadClass;
use crate::reduce::compare;
use crate::row::{Row, Source};

/// Two arms that one machine compared.
#[cfg(test)]
pub(crate) fn example() -> Row {
    Row {
        record: "0123456789abcdef0123456789abcdef".into(),
        machine: "0123456789abcdef".into(),
        day: 20_782,
        model: "Samsung SSD 970 EVO Plus 1TB".into(),
        transport: "nvme".into(),
        rotational: Some(false),
        kernel: "6.12.48".into(),
        file_system: "ext4".into(),
        load_class: "general".into(),
        load: "random-read".into(),
        fingerprint: "89abcdef01234567".into(),
        objective: "throughput".into(),
        arm: "kyber".into(),
        against: "none".into(),
        is_baseline: true,
        log_ratio: 0.1,
        standard_error: 0.02,
        rounds: 5,
        p99_ratio: Some(0.8),
        ..Row::default()
    }
}

/// What each machine compares.
pub const ARMS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// The kernels that machines have.
pub const KERNELS: [&str; 3] = ["6.1.90", "6.6.52", "6.12.48"];

/// How large a fleet is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Machines.
    pub machines: usize,
    /// Drive models, of which the first of each ten are the most frequent.
    pub models: usize,
    /// Loads that each machine measures; the first is of the class `general`.
    pub loads: usize,
}

/// What holds for a model on a kernel series, under the first load.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    /// ln of how many times as good each arm is as the first, mean over machines.
    pub effects: [f64; ARMS.len()],
    /// Standard deviation of a machine's own effect of each arm.
    pub between_machines: f64,
}

/// Machines, what they found, and what is true.
#[derive(Debug)]
pub struct Fleet {
    /// What they found.
    pub rows: Vec<Row>,
    /// By model and kernel series.
    pub truth: BTreeMap<(String, String), Truth>,
    chance: Chance,
}

impl Fleet {
    /// A fleet of this size. Models differ in how much their machines do, machines in their noise and in how many rounds
    /// they ran: 3 to 9.
    pub fn new(seed: u64, size: Size) -> Fleet {
        let mut chance = Chance(ChaCha8Rng::seed_from_u64(seed));
        let names: Vec<String> = (0..size.models).map(model_name).collect();
        let mut truth = BTreeMap::new();
        let mut family = [0.0; ARMS.len()];
        for (number, name) in names.iter().enumerate() {
            if number.is_multiple_of(CAPACITIES.len()) {
                family = chance.effects(0.15);
            }
            let model = added(family, chance.effects(0.05));
            for kernel in KERNELS {
                let effects = added(model, chance.effects(0.03));
                let between_machines = [0.0, 0.02, 0.05, 0.1][number % 4];
                let key = (name.clone(), series(kernel).to_owned());
                truth.insert(
                    key,
                    Truth {
                        effects,
                        between_machines,
                    },
                );
            }
        }
        let mut fleet = Fleet {
            rows: Vec::new(),
            truth,
            chance,
        };
        let weights: Vec<f64> = (0..size.models)
            .map(|model| 1.0 / (1 + model % 10) as f64)
            .collect();
        for machine in 0..size.machines {
            let model = fleet.chance.choose(&weights);
            let kernel = KERNELS[fleet.chance.choose(&[1.0; KERNELS.len()])];
            fleet.measure(machine, model, &names[model], kernel, size.loads);
        }
        fleet
    }

    /// The true effects of a machine that was not measured.
    pub(crate) fn another_machine(&mut self, model: &str, series: &str) -> [f64; ARMS.len()] {
        let truth = self.truth[&(model.to_owned(), series.to_owned())];
        added(truth.effects, self.chance.effects(truth.between_machines))
    }

    fn measure(&mut self, machine: usize, number: usize, model: &str, kernel: &str, loads: usize) {
        let own = self.another_machine(model, series(kernel));
        let noise = 0.03 * (1.2 * self.chance.uniform()).exp();
        let baseline = self.chance.choose(&[1.0; ARMS.len()]);
        for load in 0..loads {
            let rounds = 3 + self.chance.choose(&[1.0; 7]);
            let mut round = || -> Vec<Option<f64>> {
                let common = 0.2 * self.chance.normal();
                let trial =
                    |effect: &f64| Some((common + effect + noise * self.chance.normal()).exp());
                own.iter().map(trial).collect()
            };
            let table: Vec<_> = (0..rounds).map(|_| round()).collect();
            let (transport, rotational) =
                [("nvme", false), ("sata", false), ("sata", true)][number / 4 % 3];
            let class = LoadClass::ALL[load % LoadClass::ALL.len()];
            for pair in compare(&table, true, baseline) {
                self.rows.push(Row {
                    record: format!("{machine:032x}").into(),
                    machine: format!("{machine:016x}").into(),
                    source: Source::Measured,
                    day: 20_000,
                    program: "0.1.0".into(),
                    model: model.into(),
                    firmware: "1".into(),
                    transport: transport.into(),
                    rotational: Some(rotational),
                    queue_depth: Some(32),
                    kernel: kernel.into(),
                    file_system: "ext4".into(),
                    load_class: class.name().into(),
                    load: "made".into(),
                    fingerprint: format!("{load:016x}").into(),
                    objective: "throughput".into(),
                    arm: ARMS[pair.arm].into(),
                    against: ARMS[pair.against].into(),
                    is_baseline: pair.against == baseline,
                    log_ratio: pair.log_ratio,
                    standard_error: pair.standard_error,
                    rounds: i32::try_from(pair.rounds).unwrap(),
                    p99_ratio: Some((-pair.log_ratio).exp()),
                    ..Row::default()
                });
            }
        }
    }
}

const CAPACITIES: [&str; 4] = ["1TB", "2TB", "4TB", "8TB"];

fn model_name(number: usize) -> String {
    let family = char::from(b'A' + u8::try_from(number / CAPACITIES.len() % 26).unwrap());
    format!(
        "Maker Series {family} {}",
        CAPACITIES[number % CAPACITIES.len()]
    )
}

fn series(kernel: &str) -> &str {
    kernel.rsplit_once('.').unwrap().0
}

fn added(a: [f64; ARMS.len()], b: [f64; ARMS.len()]) -> [f64; ARMS.len()] {
    std::array::from_fn(|arm| a[arm] + b[arm])
}

/// Random numbers from a seed.
#[derive(Debug)]
struct Chance(ChaCha8Rng);

impl Chance {
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Box and Muller (1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }

    /// An effect for each arm but the first, which the others are compared with.
    fn effects(&mut self, deviation: f64) -> [f64; ARMS.len()] {
        std::array::from_fn(|arm| {
            if arm == 0 {
                0.0
            } else {
                deviation * self.normal()
            }
        })
    }

    /// An index, as often as its weight says.
    fn choose(&mut self, weights: &[f64]) -> usize {
        let mut left = self.uniform() * weights.iter().sum::<f64>();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        found.unwrap_or(weights.len() - 1)
    }
}
