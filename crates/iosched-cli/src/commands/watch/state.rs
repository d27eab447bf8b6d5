//! What the screen shows, and what keys do to it. Knows neither terminal nor machine.

use std::collections::VecDeque;
use std::time::Duration;

use iosched_machine::watch::{DeviceSample, Rates, Sample};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Looks that are remembered: more than any terminal is wide.
const REMEMBERED: usize = 600;

/// All that is shown.
#[derive(Debug)]
pub(super) struct State {
    /// Host and kernel.
    pub(super) title: String,
    /// Time between two looks.
    pub(super) interval: Duration,
    /// Share of the last interval in which tasks waited for I/O: some, all.
    pub(super) pressure: Option<(f64, f64)>,
    /// The devices of the last sample and those that are gone, in the order in which they appeared.
    pub(super) devices: Vec<History>,
    /// Index of the chosen device.
    pub(super) chosen: usize,
    /// What keys mean now.
    pub(super) mode: Mode,
    /// The answer to the last key that did something.
    pub(super) message: Option<String>,
}

/// What was seen of a device.
#[derive(Debug)]
pub(super) struct History {
    pub(super) last: DeviceSample,
    /// What was before, the newest last.
    pub(super) points: VecDeque<Point>,
}

/// One look at a device.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Point {
    /// How long it was, s.
    pub(super) elapsed_s: f64,
    /// What it did; none while it was gone.
    pub(super) rates: Option<Rates>,
    /// Its scheduler became this one here.
    pub(super) became: Option<String>,
}

/// What keys mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Choose a device, ask for more.
    Watching,
    /// The keys are explained.
    Help,
    /// Choose a scheduler for the chosen device.
    Choosing {
        /// Index into what it offers.
        at: usize,
    },
    /// Is it to be switched to this one?
    Confirming { scheduler: String },
}

/// What a key asks for that the state cannot do itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    None,
    /// End.
    Quit,
    /// Switch a device.
    Switch {
        /// Kernel name.
        device: String,
        /// To what.
        scheduler: String,
    },
}

impl State {
    pub(super) fn new(title: String, interval: Duration) -> State {
        State {
            title,
            interval,
            pressure: None,
            devices: Vec::new(),
            chosen: 0,
            mode: Mode::Watching,
            message: None,
        }
    }

    /// The chosen device, if there is any.
    pub(super) fn device(&self) -> Option<&History> {
        self.devices.get(self.chosen)
    }

    /// Takes in what was seen. A device that was there and is not now stays, as gone.
    pub(super) fn add(&mut self, sample: Sample) {
        self.pressure = sample.pressure_some.zip(sample.pressure_full);
        let elapsed_s = sample.elapsed_s;
        let mut seen = Vec::new();
        for device in sample.devices {
            seen.push(device.device.clone());
            match self.history(&device.device) {
                Some(history) => history.add(device, elapsed_s),
                None => self.devices.push(History::new(device, elapsed_s)),
            }
        }
        for history in &mut self.devices {
            if !seen.contains(&history.last.device) {
                let gone = DeviceSample {
                    rates: None,
                    ..history.last.clone()
                };
                history.add(gone, elapsed_s);
            }
        }
    }

    fn history(&mut self, device: &str) -> Option<&mut History> {
        self.devices
            .iter_mut()
            .find(|history| history.last.device == device)
    }

    /// A switch that a key asked for was tried.
    pub(super) fn switched(&mut self, device: &str, scheduler: &str, said: Result<(), String>) {
        self.message = Some(match said {
            Ok(()) => format!("{device}: {scheduler}"),
            Err(cause) => format!("error: {cause}"),
        });
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        self.message = None;
        match self.mode.clone() {
            Mode::Watching => self.press_watching(key.code),
            Mode::Help => {
                self.mode = Mode::Watching;
                Action::None
            }
            Mode::Choosing { at } => {
                self.press_choosing(key.code, at);
                Action::None
            }
            Mode::Confirming { scheduler } => {
                self.mode = Mode::Watching;
                if let KeyCode::Char('y' | 'Y') = key.code
                    && let Some(history) = self.device()
                {
                    let device = history.last.device.clone();
                    return Action::Switch { device, scheduler };
                }
                self.message = Some("nothing was changed".to_owned());
                Action::None
            }
        }
    }

    fn press_watching(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => {
                self.chosen = (self.chosen + 1).min(self.devices.len().saturating_sub(1));
            }
            KeyCode::Char('s') => self.choose(),
            _ => {}
        }
        Action::None
    }

    /// Opens the choice of a scheduler, with the active one chosen.
    fn choose(&mut self) {
        let Some(history) = self.device() else {
            return;
        };
        let device = &history.last;
        if device.rates.is_none() {
            self.message = Some(format!("{} is gone", device.device));
        } else if device.offered.len() < 2 {
            self.message = Some(format!("{} has no scheduler to choose", device.device));
        } else {
            let active = device.scheduler.as_ref();
            let at = device
                .offered
                .iter()
                .position(|name| Some(name) == active)
                .unwrap_or(0);
            self.mode = Mode::Choosing { at };
        }
    }

    fn press_choosing(&mut self, key: KeyCode, at: usize) {
        let Some(device) = self.device().map(|history| &history.last) else {
            self.mode = Mode::Watching;
            return;
        };
        let last = device.offered.len().saturating_sub(1);
        self.mode = match key {
            KeyCode::Up | KeyCode::Char('k') => Mode::Choosing {
                at: at.saturating_sub(1),
            },
            KeyCode::Down | KeyCode::Char('j') => Mode::Choosing {
                at: (at + 1).min(last),
            },
            KeyCode::Enter => match device.offered.get(at) {
                Some(chosen) if Some(chosen) != device.scheduler.as_ref() => Mode::Confirming {
                    scheduler: chosen.clone(),
                },
                _ => Mode::Watching,
            },
            _ => Mode::Watching,
        };
    }
}

impl History {
    fn new(first: DeviceSample, elapsed_s: f64) -> History {
        History {
            points: VecDeque::from([Point {
                elapsed_s,
                rates: first.rates,
                became: None,
            }]),
            last: first,
        }
    }

    fn add(&mut self, sample: DeviceSample, elapsed_s: f64) {
        let is_other = sample.scheduler != self.last.scheduler;
        if self.points.len() == REMEMBERED {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            elapsed_s,
            rates: sample.rates,
            became: sample.scheduler.clone().filter(|_| is_other),
        });
        self.last = sample;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A sample of one device with a rate.
    pub(crate) fn sample(device: &str, scheduler: &str, reads_per_s: f64) -> Sample {
        let mut rates = Rates {
            queue_length: 1.5,
            utilisation: 0.5,
            ..Rates::default()
        };
        rates.read.ios_per_s = reads_per_s;
        rates.read.bytes_per_s = reads_per_s * 4096.0;
        rates.read.await_ns = Some(8e6);
        Sample {
            unix_s: 0.0,
            elapsed_s: 1.0,
            pressure_some: Some(0.25),
            pressure_full: Some(0.125),
            devices: vec![DeviceSample {
                device: device.into(),
                scheduler: Some(scheduler.into()),
                offered: ["none", "mq-deadline", "bfq"].map(str::to_owned).to_vec(),
                rates: Some(rates),
            }],
        }
    }

    fn press(state: &mut State, keys: &[KeyCode]) -> Action {
        keys.iter().fold(Action::None, |_, &code| {
            state.press(KeyEvent::new(code, KeyModifiers::NONE))
        })
    }

    fn watching() -> State {
        let mut state = State::new("host".into(), Duration::from_secs(1));
        state.add(sample("sda", "none", 100.0));
        state
    }

    #[test]
    fn a_switch_is_asked_for_twice() {
        let mut state = watching();
        let keys = [
            KeyCode::Char('s'),
            KeyCode::Down,
            KeyCode::Down,
            KeyCode::Enter,
            KeyCode::Char('y'),
        ];
        assert_eq!(press(&mut state, &keys[..4]), Action::None);
        let switch = Action::Switch {
            device: "sda".into(),
            scheduler: "bfq".into(),
        };
        assert_eq!(press(&mut state, &keys[4..]), switch);
        assert_eq!(state.mode, Mode::Watching);
    }

    #[test]
    fn anything_but_yes_changes_nothing() {
        for key in [KeyCode::Char('n'), KeyCode::Esc, KeyCode::Enter] {
            let mut state = watching();
            let keys = [KeyCode::Char('s'), KeyCode::Down, KeyCode::Enter, key];
            assert_eq!(press(&mut state, &keys), Action::None);
            assert_eq!(state.message.as_deref(), Some("nothing was changed"));
        }
    }

    #[test]
    fn choosing_the_active_one_asks_nothing() {
        let mut state = watching();
        press(&mut state, &[KeyCode::Char('s'), KeyCode::Enter]);
        assert_eq!(state.mode, Mode::Watching);
    }

    #[test]
    fn a_switch_by_anybody_is_marked_on_the_history() {
        let mut state = watching();
        state.add(sample("sda", "bfq", 100.0));
        state.add(sample("sda", "bfq", 100.0));
        let marks: Vec<_> = state.devices[0]
            .points
            .iter()
            .map(|point| point.became.as_deref())
            .collect();
        assert_eq!(marks, [None, Some("bfq"), None]);
    }

    #[test]
    fn a_device_that_vanishes_stays_and_is_gone() {
        let mut state = watching();
        let mut empty = sample("sda", "none", 0.0);
        empty.devices.clear();
        state.add(empty);
        assert_eq!(state.devices.len(), 1);
        assert_eq!(state.devices[0].last.rates, None);
        press(&mut state, &[KeyCode::Char('s')]);
        assert_eq!(state.message.as_deref(), Some("sda is gone"));
    }

    #[test]
    fn the_history_has_an_end() {
        let mut state = watching();
        for _ in 0..2 * REMEMBERED {
            state.add(sample("sda", "none", 100.0));
        }
        assert_eq!(state.devices[0].points.len(), REMEMBERED);
    }
}
