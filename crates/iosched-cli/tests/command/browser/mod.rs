//! A headless Chromium, spoken to over its own debugging pipe (Chrome `DevTools` Protocol, one JSON
//! object after the other with a zero byte behind each).
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

/// A browser with one page, ended when dropped.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: String,
    next_id: u64,
    /// Everything that the page said: console, exceptions, requests.
    pub(crate) events: Vec<Value>,
    directory: tempfile::TempDir,
}

/// How a page is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) is_dark: bool,
    pub(crate) is_phone: bool,
}

impl Browser {
    /// Starts one; `None` (said) where there is none.
    pub(crate) fn start() -> Option<Browser> {
        let version = Command::new("chromium").arg("--version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            iosched_testing::lacks("a chromium that starts");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = directory.path().join(name);
            let made = Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success());
            path
        };
        let (input, output) = (pipe("input"), pipe("output"));
        // The browser reads from file 3 and writes to file 4.
        let script = "input=$1; output=$2; shift 2; exec \"$@\" 3<>\"$input\" 4<>\"$output\"";
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args([&input, &output])
            .args([
                "chromium",
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
            ])
            .args([
                "--remote-debugging-pipe",
                "--hide-scrollbars",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-dev-shm-usage"])
            .arg(format!(
                "--user-data-dir={}",
                directory.path().join("profile").display()
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(directory.path().join("said")).unwrap())
            .spawn()
            .unwrap();
        let mut browser = Browser {
            child,
            to: OpenOptions::new()
                .read(true)
                .write(true)
                .open(input)
                .unwrap(),
            from: BufReader::new(
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(output)
                    .unwrap(),
            ),
            session: String::new(),
            next_id: 0,
            events: Vec::new(),
            directory,
        };
        let target = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", &target);
        attached["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.ask(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Asks the page (or, before there is one, the browser), and waits for the answer.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let mut message = json!({ "id": self.next_id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let answer = self.read();
            if answer["id"] == json!(self.next_id) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        // This end of the pipe is open for writing, too: the browser's end does not end the reading.
        while self.from.buffer().is_empty() && !has_something(self.from.get_ref()) {
            let end = self.child.try_wait().unwrap();
            let said = || std::fs::read_to_string(self.directory.path().join("said")).unwrap();
            assert!(end.is_none(), "chromium has ended ({end:?}): {}", said());
        }
        self.from.read_until(0, &mut bytes).unwrap();
        bytes.pop();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Opens a file and waits until its script has run.
    pub(crate) fn open(&mut self, path: &Path, look: Look) {
        self.events.clear();
        let screen = json!({
            "width": look.width, "height": look.height,
            "deviceScaleFactor": 1, "mobile": look.is_phone,
        });
        self.ask("Emulation.setDeviceMetricsOverride", &screen);
        self.ask(
            "Emulation.setTouchEmulationEnabled",
            &json!({ "enabled": look.is_phone }),
        );
        let scheme = if look.is_dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.ask("Emulation.setEmulatedMedia", &media);
        let url = format!("file://{}", path.canonicalize().unwrap().display());
        self.ask("Page.navigate", &json!({ "url": url }));
        let live = "new Promise((done) => { const look = () => \
                     document.documentElement?.dataset.live ? done(true) : setTimeout(look, 50); look(); \
                     setTimeout(() => done(false), 600000); })";
        assert_eq!(self.value(live), json!(true));
    }

    /// What an expression of JavaScript is.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let answer = self.ask("Runtime.evaluate", &params);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Waits until an expression of JavaScript is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let seen = format!(
            "new Promise((done) => {{ const look = () => ({expression}) ? done(true) : setTimeout(look, 20); \
             look(); setTimeout(() => done(false), 600000); }})"
        );
        assert_eq!(self.value(&seen), json!(true), "{expression}");
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => panic!("no code for {key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code });
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }

    /// What the page complained about, and what it tried to load besides itself.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] != "log",
            Some("Network.requestWillBeSent") => {
                let url = event["params"]["request"]["url"]
                    .as_str()
                    .unwrap_or_default();
                !["file://", "data:", "blob:", "about:"]
                    .iter()
                    .any(|own| url.starts_with(own))
            }
            _ => false,
        };
        self.events
            .iter()
            .filter(is_complaint)
            .map(ToString::to_string)
            .collect()
    }

    /// A picture of the whole page, in base64, for those who want to look
    /// (`IOSCHED_SCREENSHOTS=DIR cargo test`).
    pub(crate) fn screenshot(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("IOSCHED_SCREENSHOTS") else {
            return;
        };
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.ask("Page.captureScreenshot", &params);
        let path = Path::new(&directory).join(format!("{name}.png.base64"));
        std::fs::write(path, answer["data"].as_str().unwrap()).unwrap();
    }
}

/// Waits for a second, or until a pipe has something to be read.
fn has_something(pipe: &File) -> bool {
    let second = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let mut waiting = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut waiting, Some(&second)).is_ok_and(|ready| ready > 0)
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
