//! The page in a real browser: nothing missing, nothing loaded, the numbers those of the record.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::browser::{Browser, Look};
use serde_json::{Value, json};

const DESKTOP: Look = Look {
    width: 1280,
    height: 900,
    is_dark: false,
    is_phone: false,
};
const PHONE: Look = Look {
    width: 390,
    height: 844,
    is_dark: true,
    is_phone: true,
};

/// A real record: a tune of two loads on an emulated disk.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example-record")
}

fn iosched(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_iosched"))
        .args(args)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    output
}

/// The page of some paths.
fn page(directory: &Path, paths: &[&Path]) -> PathBuf {
    let page = directory.join("page.html");
    let mut args = vec!["report", "--html", page.to_str().unwrap()];
    args.extend(paths.iter().map(|path| path.to_str().unwrap()));
    iosched(&args);
    let size = std::fs::metadata(&page).unwrap().len();
    assert!(size < 6_000_000, "{size} bytes");
    page
}

/// Looks at a page as a desktop and as a phone do: no complaint, no request, every chart with marks,
/// nothing wider than the screen.
fn look_at(browser: &mut Browser, page: &Path, name: &str) {
    for (kind, look) in [
        ("desktop", DESKTOP),
        (
            "desktop-dark",
            Look {
                is_dark: true,
                ..DESKTOP
            },
        ),
        (
            "phone",
            Look {
                is_dark: false,
                ..PHONE
            },
        ),
        ("phone-dark", PHONE),
    ] {
        browser.open(page, look);
        browser.screenshot(&format!("{name}-{kind}"));
        assert_eq!(browser.complaints(), Vec::<String>::new(), "{name} {kind}");
        let charts = browser.value(
            "Array.from(document.querySelectorAll('figure'), (f) => [f.id, \
             f.querySelectorAll('.live .points path, .live .point path, .live path.js-line, .live .scatterlayer path').length, \
             f.querySelectorAll('.static svg polyline, .static svg rect, .static svg circle').length, \
             f.querySelector('.words p').textContent.length, \
             f.querySelector('.live')._fullLayout?._size.w * 2 >= f.clientWidth ? 1 : 0])",
        );
        for chart in charts.as_array().unwrap() {
            // Marks, marks of the drawing, words, and half of the width for the plot.
            for count in &chart.as_array().unwrap()[1..] {
                assert!(count.as_u64() > Some(0), "{name} {kind}: {chart}");
            }
        }
        let width = browser.value("document.documentElement.scrollWidth");
        assert!(
            width.as_u64() <= Some(u64::from(look.width)),
            "{name} {kind}: {width} px wide"
        );
        let paper = browser.value("getComputedStyle(document.body).backgroundColor");
        let wanted = if look.is_dark {
            "rgb(20, 24, 29)"
        } else {
            "rgb(255, 255, 255)"
        };
        assert_eq!(paper, json!(wanted), "{name} {kind}");
    }
}

#[test]
fn the_page_of_a_record_says_what_the_record_says() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = example();
    let page = page(directory.path(), &[&path]);
    look_at(&mut browser, &page, "record");

    let output = iosched(&["report", path.to_str().unwrap(), "--json"]);
    let analysis: Value = serde_json::from_slice(&output.stdout).unwrap();
    browser.open(&page, DESKTOP);
    let drawn = browser.value(
        "document.querySelector('#chart-ratio .live').data.map((trace) => [trace.name, trace.x, \
         trace.error_x?.array, trace.error_x?.arrayminus])",
    );
    for (arm, trace) in drawn.as_array().unwrap().iter().enumerate() {
        assert_eq!(trace[0], analysis["arms"][arm]);
        for (load, contest) in analysis["loads"].as_array().unwrap().iter().enumerate() {
            let ratio = &contest["contest"]["arms"][arm]["to_baseline"];
            let near = |found: f64, key: &str| {
                let wanted = ratio[key].as_f64().unwrap();
                assert!((found / wanted - 1.0).abs() < 1e-4, "{trace} {ratio}");
            };
            let x = trace[1][load].as_f64().unwrap();
            near(x, "estimate");
            if let Some(above) = trace[2][load].as_f64() {
                near(x + above, "upper");
                near(x - trace[3][load].as_f64().unwrap(), "lower");
            }
        }
    }
    let text = iosched(&["report", path.to_str().unwrap()]).stdout;
    let text = String::from_utf8(text).unwrap();
    let cells = browser.value(
        "Array.from(document.querySelectorAll('#comparison tbody tr'), (row) => \
         Array.from(row.cells, (cell) => cell.textContent))",
    );
    for row in cells.as_array().unwrap() {
        let ratio = row[1].as_str().unwrap();
        let arm = row[0].as_str().unwrap();
        let is_told = |line: &str| line.starts_with(arm) && line.contains(ratio);
        assert!(text.lines().any(is_told), "{row} is not in\n{text}");
    }
}

#[test]
fn tables_sort_and_the_theme_changes_by_keyboard() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path(), &[&example()]);
    browser.open(&page, DESKTOP);
    let column = "Array.from(document.querySelector('#comparison table').tBodies[0].rows, \
                  (row) => parseFloat(row.cells[3].textContent))";
    let sort = "document.querySelector('#comparison thead th:nth-child(4) button')";
    let press = |browser: &mut Browser, target: &str| -> Vec<f64> {
        browser.value(&format!(
            "{target}.focus(); document.activeElement === {target}"
        ));
        for kind in ["keyDown", "keyUp"] {
            let key = json!({ "type": kind, "key": "Enter", "code": "Enter", "text": "\r",
                "windowsVirtualKeyCode": 13 });
            browser.ask("Input.dispatchKeyEvent", &key);
        }
        let values = browser.value(column);
        values
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_f64().unwrap())
            .collect()
    };
    let down = press(&mut browser, sort);
    assert!(down.windows(2).all(|pair| pair[0] >= pair[1]), "{down:?}");
    let up = press(&mut browser, sort);
    assert!(up.windows(2).all(|pair| pair[0] <= pair[1]), "{up:?}");
    let key = "document.querySelector('#chart-ratio button.key')";
    press(&mut browser, key);
    let is_shown = "document.querySelector('#chart-ratio .live').data[0].visible";
    assert_eq!(browser.value(is_shown), json!(false));
    press(&mut browser, "document.getElementById('theme')");
    assert_eq!(browser.value(is_shown), json!(false));
    let paper = browser.value("getComputedStyle(document.body).backgroundColor");
    assert_eq!(paper, json!("rgb(20, 24, 29)"));
}

#[test]
fn hostile_names_are_text_everywhere() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let hostile = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\
                   '\"&`{{7*7}}\u{fffd}\u{202e}";
    let long = format!("{hostile}{}", "x".repeat(20_000));
    let text = std::fs::read_to_string(example().join("record.jsonl")).unwrap();
    let (header, trials) = text.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    header["machine"]["hostname"] = json!(hostile);
    header["machine"]["kernel"] = json!(hostile);
    header["machine"]["disks"][0]["model"] = json!(long);
    header["machine"]["disks"][0]["queue"][hostile] = json!(hostile);
    header["command"] = json!(["iosched", hostile]);
    header["plan"]["loads"][0]["name"] = json!(hostile);
    header["plan"]["loads"][1]["name"] = json!(long);
    let trials = trials.replace(
        "\"name\":\"writer\"",
        &format!("\"name\":{}", json!(hostile)),
    );
    std::fs::write(
        directory.path().join("record.jsonl"),
        format!("{header}\n{trials}"),
    )
    .unwrap();
    let page = page(directory.path(), &[directory.path()]);
    look_at(&mut browser, &page, "hostile");
    let title = browser.value("document.title");
    assert!(title.as_str().unwrap().contains("<script>"), "{title}");
    assert_eq!(
        browser.value("document.querySelectorAll('main img').length"),
        json!(0)
    );
    let scripts = "Array.from(document.scripts).filter((s) => s.textContent.includes('owned') && \
                   s.type !== 'application/json').length";
    assert_eq!(browser.value(scripts), json!(0));
}

#[test]
fn simulations_recordings_and_comparisons_are_pages_too() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let load = "[r]\nrw=randread\nbs=4k\n[w]\nrw=write\nbs=64k\niodepth=8\n";
    std::fs::write(path("load.fio"), load).unwrap();
    let load = path("load.fio");
    let common = [
        "simulate",
        "--until",
        "2",
        "--size",
        "8",
        "--load",
        load.to_str().unwrap(),
    ];
    let simulated = iosched(&[&common[..], &["--json"]].concat());
    std::fs::write(path("simulated.json"), simulated.stdout).unwrap();
    let events = path("events");
    let with_events = ["--scheduler", "cfq", "--events", events.to_str().unwrap()];
    iosched(&[&common[..], &with_events].concat());
    let conform = iosched(&[
        "conform",
        "--json",
        "--scheduler",
        "cfq",
        events.to_str().unwrap(),
    ]);
    std::fs::write(path("conform.json"), conform.stdout).unwrap();
    let copy = path("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(example().join("record.jsonl"), copy.join("record.jsonl")).unwrap();
    for (name, paths) in [
        ("simulated", vec![path("simulated.json")]),
        ("events", vec![events.clone()]),
        ("conform", vec![path("conform.json")]),
        ("compared", vec![example(), copy]),
    ] {
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let page = page(directory.path(), &paths);
        look_at(&mut browser, &page, name);
        match name {
            "simulated" => says_what_was_simulated(&mut browser, paths[0]),
            "events" => says_how_many_requests_there_were(&mut browser, paths[0]),
            "conform" => says_how_many_decisions_agree(&mut browser, paths[0]),
            _ => {}
        }
    }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn says_what_was_simulated(browser: &mut Browser, path: &Path) {
    let simulated = json_of(path);
    let bars = browser.value(
        "document.querySelector('#chart-throughput .live').data.map((trace) => [trace.name, trace.x[0]])",
    );
    let runs = simulated["runs"].as_array().unwrap();
    assert_eq!(bars.as_array().unwrap().len(), runs.len());
    for (bar, run) in bars.as_array().unwrap().iter().zip(runs) {
        assert_eq!(bar[0], run["scheduler"]);
        let megabytes = run["total"]["bytes_per_second"].as_f64().unwrap() / 1e6;
        assert!(
            (bar[1].as_f64().unwrap() / megabytes - 1.0).abs() < 1e-4,
            "{bar} {run}"
        );
    }
}

fn says_how_many_requests_there_were(browser: &mut Browser, path: &Path) {
    let output = iosched(&["report", path.to_str().unwrap(), "--json"]);
    let traffic: Value = serde_json::from_slice(&output.stdout).unwrap();
    let headline = browser.value("document.querySelector('.headline').textContent");
    let wanted = format!("{} requests in ", traffic["requests"]);
    assert!(
        headline.as_str().unwrap().starts_with(&wanted),
        "{headline} {traffic}"
    );
}

fn says_how_many_decisions_agree(browser: &mut Browser, path: &Path) {
    let conform = json_of(path);
    let cells = browser.value(
        "Array.from(document.querySelectorAll('#comparison tbody tr:first-child > *'), (cell) => cell.textContent)",
    );
    for key in ["decisions", "agreed"] {
        let number = json!(conform[key].to_string());
        assert!(
            cells.as_array().unwrap().contains(&number),
            "{key}: {cells} {conform}"
        );
    }
}
