//! JSON for programs: what is a bare index in memory (an arm, a load) is a name there, and each arm has its word of the
//! scale that tables and sentences use.

use iosched_experiment::analysis::{Analysis, Rank};
use iosched_experiment::plan::Plan;
use iosched_experiment::trial::Slot;
use iosched_stats::race::{Contest, Standing};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The names that indices stand for.
#[derive(Debug, Clone)]
pub struct Names {
    arms: Vec<String>,
    loads: Vec<String>,
    baseline: usize,
}

impl Names {
    /// Those of a plan.
    pub fn of(plan: &Plan) -> Names {
        Names {
            arms: (0..plan.arms.len())
                .map(|arm| plan.arm_label(arm))
                .collect(),
            loads: plan.loads.iter().map(|load| load.name.clone()).collect(),
            baseline: plan.baseline,
        }
    }

    /// A plan: its baseline and the arm that was active by name.
    pub fn plan(&self, plan: &Plan) -> Value {
        let mut value = json_of(plan);
        self.name_arm(&mut value["baseline"]);
        self.name_arm(&mut value["active"]);
        value
    }

    /// How a race stands, or stood.
    pub fn standing(&self, standing: &Standing) -> Value {
        let mut value = json_of(standing);
        for (load, contest) in standing.loads.iter().enumerate() {
            value["loads"][load] = self.contest(contest);
        }
        if let Some(overall) = &standing.overall {
            value["overall"] = self.contest(overall);
        }
        if let Some(next) = &standing.next {
            let next = next.iter().zip(&self.loads).map(|(arms, load)| {
                let arms: Vec<&String> = arms.iter().map(|&arm| &self.arms[arm]).collect();
                (load.clone(), json!(arms))
            });
            value["next"] = Value::Object(next.collect());
        }
        value
    }

    /// Trials that are still to be run.
    pub fn slots(&self, slots: &[Slot]) -> Value {
        let slots = slots.iter().map(|slot| {
            json!({
                "load": self.loads[slot.load],
                "round": slot.round + 1,
                "arm": self.arms[slot.arm],
            })
        });
        slots.collect()
    }

    fn contest(&self, contest: &Contest) -> Value {
        let mut value = json_of(contest);
        self.name_arm(&mut value["leader"]);
        for (arm, name) in self.arms.iter().enumerate() {
            let standing = &mut value["arms"][arm];
            standing["arm"] = json!(name);
            standing["rank"] = json!(Rank::of(contest, arm, self.baseline));
            if let Some(than) = standing.pointer_mut("/place/worse/than") {
                self.name_arm(than);
            }
        }
        if let Value::Object(verdict) = &mut value["verdict"] {
            for what in verdict.values_mut() {
                self.name_arms_of(what);
            }
        }
        value["pairs"] = self.pairs(contest);
        value
    }

    /// Metric of an arm / metric of another, both by name; what is not known is left out.
    fn pairs(&self, contest: &Contest) -> Value {
        let arms = 0..self.arms.len();
        let of_arm = |a: usize| {
            let others = arms.clone().filter(|&b| b != a);
            let ratios = others.filter_map(|b| {
                let ratio = contest.ratio(a, b)?;
                Some((self.arms[b].clone(), json_of(&ratio)))
            });
            (self.arms[a].clone(), Value::Object(ratios.collect()))
        };
        Value::Object(arms.clone().map(of_arm).collect())
    }

    /// `arm`, `arms` and `among` of a verdict.
    fn name_arms_of(&self, verdict: &mut Value) {
        let Value::Object(fields) = verdict else {
            return;
        };
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("arm", value) => self.name_arm(value),
                ("arms" | "among", Value::Array(arms)) => {
                    for arm in arms {
                        self.name_arm(arm);
                    }
                }
                _ => {}
            }
        }
    }

    fn name_arm(&self, value: &mut Value) {
        name(value, &self.arms);
    }

    fn name_load_and_arm(&self, fields: &mut Value) {
        if fields.get("load").is_some() {
            name(&mut fields["load"], &self.loads);
        }
        if fields.get("arm").is_some() {
            self.name_arm(&mut fields["arm"]);
        }
    }
}

/// All that was worked out of a record.
pub fn analysis(analysis: &Analysis) -> Value {
    let names = Names {
        arms: analysis.arms.clone(),
        loads: analysis
            .loads
            .iter()
            .map(|load| load.name.clone())
            .collect(),
        baseline: analysis.baseline,
    };
    let mut value = json_of(analysis);
    names.name_arm(&mut value["baseline"]);
    names.name_arm(&mut value["choice"]);
    names.name_load_and_arm(&mut value["action"]);
    for (index, load) in analysis.loads.iter().enumerate() {
        let of_load = &mut value["loads"][index];
        of_load["contest"] = names.contest(&load.contest);
        for (arm, name) in names.arms.iter().enumerate() {
            of_load["arms"][arm]["arm"] = json!(name);
        }
        each(&mut of_load["remarks"], |remark| {
            names.name_load_and_arm(remark);
        });
    }
    if let Some(overall) = &analysis.overall {
        value["overall"] = names.contest(overall);
    }
    for list in ["side_effects", "caveats"] {
        each(&mut value[list], |one| {
            names.name_load_and_arm(one);
            if let Some(than) = one.get_mut("than") {
                names.name_arm(than);
            }
        });
    }
    for (index, confound) in analysis.confounds.iter().enumerate() {
        let values = confound.values.iter();
        let values: Map<String, Value> = values
            .map(|(arm, value)| (names.arms[*arm].clone(), json!(value)))
            .collect();
        value["confounds"][index]["values"] = Value::Object(values);
    }
    value
}

fn each(list: &mut Value, change: impl Fn(&mut Value)) {
    if let Value::Array(all) = list {
        all.iter_mut().for_each(change);
    }
}

/// Puts the name in the place of its index.
fn name(value: &mut Value, names: &[String]) {
    let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
    if let Some(name) = index.and_then(|index| names.get(index)) {
        *value = json!(name);
    }
}

fn json_of<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("our own types serialise")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosched_experiment::fixture;
    use iosched_experiment::record::Entry;
    use iosched_experiment::schedule::{Next, next};

    /// What a program reads of a run whose arms are this much faster than the first.
    fn read(factors: &[f64]) -> Value {
        let plan = fixture::plan(factors.len());
        let mut record = fixture::record(&plan);
        while let Next::Trial(slot) = next(&plan, &record) {
            let noise = ((slot.round as usize * 7 + slot.arm * 3) % 5) as f64 * 0.002;
            let mut entry = fixture::trial(slot, 1e6 * factors[slot.arm] * (1.0 + noise));
            if let Entry::Trial(trial) = &mut entry {
                let p99_ns = &mut trial.metrics.all.as_mut().unwrap().p99_ns;
                *p99_ns *= [1.0, 3.0, 1.0][slot.arm];
                trial.jobs[0].read.as_mut().unwrap().ios = 50;
            }
            record.entries.push(entry);
        }
        analysis(&Analysis::of(&record))
    }

    #[test]
    fn arms_and_loads_are_named_wherever_they_are_meant() {
        let value = read(&[1.0, 1.5, 0.7]);
        assert_eq!(value["baseline"], "none");
        assert_eq!(value["choice"], "mq-deadline");
        assert_eq!(value["action"]["arm"], "mq-deadline");
        assert_eq!(value["action"]["costs_at_most"], 1.0);
        let load = &value["loads"][0];
        let contest = &load["contest"];
        assert_eq!(contest["verdict"]["winner"]["arm"], "mq-deadline");
        assert_eq!(contest["leader"], "mq-deadline");
        assert_eq!(contest["arms"][2]["place"]["worse"]["than"], "mq-deadline");
        assert_eq!(contest["arms"][1]["rank"], "winner");
        assert_eq!(contest["arms"][2]["rank"], "eliminated");
        assert!(contest["pairs"]["mq-deadline"]["none"]["estimate"].is_number());
        assert_eq!(load["arms"][2]["arm"], "kyber");
        assert_eq!(value["side_effects"][0]["load"], "random-read");
        assert_eq!(value["side_effects"][0]["than"], "none");
        assert_eq!(value["caveats"][0]["load"], "random-read");
        assert_eq!(value["caveats"][0]["arm"], "none");
    }

    #[test]
    fn equals_are_named() {
        let verdict = &read(&[1.0, 1.0005, 0.5])["loads"][0]["contest"]["verdict"];
        assert_eq!(verdict["equal"]["arms"], json!(["none", "mq-deadline"]));
    }

    #[test]
    fn a_plan_and_what_is_left_of_it_are_named() {
        let plan = fixture::plan(2);
        let names = Names::of(&plan);
        assert_eq!(names.plan(&plan)["baseline"], "none");
        assert_eq!(names.plan(&plan)["active"], "none");
        let slot = Slot {
            load: 0,
            round: 2,
            arm: 1,
        };
        let expected = json!([{"load": "random-read", "round": 3, "arm": "mq-deadline"}]);
        assert_eq!(names.slots(&[slot]), expected);
    }
}
