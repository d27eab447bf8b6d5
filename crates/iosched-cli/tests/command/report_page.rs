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
    assert!(size < 1_000_000, "{size} bytes");
    page
}

/// JavaScript: the value of an axis at a place of its drawing.
const VALUE_AT: &str = "((axis, px) => { const [, isLog, from, to, first, last] = JSON.parse(axis); \
     const share = (px - first) / (last - first); \
     return isLog ? from * (to / from) ** share : from + (to - from) * share; })";

/// JavaScript: what the page says of the mark that is pointed at.
const SAID: &str = "document.querySelector('.tip').textContent";

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
            "Array.from(document.querySelectorAll('figure'), (figure) => { \
             const shown = Array.from(figure.querySelectorAll('.chart svg')).filter((svg) => svg.getClientRects().length); \
             const [svg] = shown; \
             const [, , , , left, right] = svg.dataset.x ? JSON.parse(svg.dataset.x) : [0, 0, 0, 0, 0, svg.viewBox.baseVal.width]; \
             return [figure.id, shown.length === 1, \
               svg.querySelectorAll('g[data-series] :is(circle, path, rect, polyline)').length > 0, \
               figure.querySelector('.words p').textContent.length > 0, \
               (right - left) * 2 >= svg.viewBox.baseVal.width, \
               12 * svg.getScreenCTM().a >= 9]; })",
        );
        for chart in charts.as_array().unwrap() {
            // One drawing, marks, words, half of the width for the plot, letters that can be read.
            for is_so in &chart.as_array().unwrap()[1..] {
                assert_eq!(is_so, &json!(true), "{name} {kind}: {chart}");
            }
        }
        let width = browser.value("document.documentElement.scrollWidth");
        assert!(
            width.as_u64() <= Some(u64::from(look.width)),
            "{name} {kind}: {width} px wide"
        );
        // What a table has is within sight, not behind its edge.
        let hidden = browser.value(
            "Array.from(document.querySelectorAll('.wide-rows td')).filter((cell) => cell.getClientRects().length \
             && cell.getBoundingClientRect().right > document.documentElement.clientWidth).length",
        );
        if look.is_phone {
            assert_eq!(hidden, json!(0), "{name} {kind}: numbers out of sight");
        }
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
    let of_load = |load: usize| &analysis["loads"][load]["contest"];
    ratios_are_drawn(&mut browser, "ratio", &[of_load(0), &analysis["overall"]]);
    ratios_are_drawn(&mut browser, "ratio-less", &[of_load(1)]);
    let cut = "Array.from(document.querySelectorAll('.wide text')).filter((text) => { \
               const box = text.getBBox(); \
               return box.x < 0 || box.x + box.width > text.ownerSVGElement.viewBox.baseVal.width; \
               }).map((text) => text.textContent)";
    assert_eq!(browser.value(cut), json!([]));

    let text = iosched(&["report", path.to_str().unwrap(), "--details"]).stdout;
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

/// The marks of a ratio chart and the lines of their intervals lie where the record says.
fn ratios_are_drawn(browser: &mut Browser, chart: &str, contests: &[&Value]) {
    let drawn = browser.value(&format!(
        "(() => {{ const svg = document.querySelector('#chart-{chart} .wide'); \
         const value = (px) => {VALUE_AT}(svg.dataset.x, px); \
         return Array.from(svg.querySelectorAll('[data-series]'), (series) => [ \
           Array.from(series.querySelectorAll('circle, path'), (mark) => mark.getBBox()) \
             .map((box) => value(box.x + box.width / 2)), \
           Array.from(series.querySelectorAll('polyline')).filter((line) => line.points.length === 2) \
             .map((line) => [value(line.points[0].x), value(line.points[1].x)])]); }})()"
    ));
    let near = |found: &Value, wanted: &Value| {
        let (found, wanted) = (found.as_f64().unwrap(), wanted.as_f64().unwrap());
        (found / wanted - 1.0).abs() < 2e-3
    };
    for (arm, series) in drawn.as_array().unwrap().iter().enumerate() {
        let ratios = contests
            .iter()
            .map(|contest| &contest["arms"][arm]["to_baseline"]);
        let mut lines = series[1].as_array().unwrap().iter();
        for (mark, ratio) in series[0].as_array().unwrap().iter().zip(ratios) {
            if ratio.is_null() {
                assert!(near(mark, &json!(1.0)), "{mark} {ratio}");
                continue;
            }
            assert!(near(mark, &ratio["estimate"]), "{mark} {ratio}");
            if ratio["lower"] == ratio["upper"] {
                continue;
            }
            let line = lines.next().expect("an interval has a line");
            assert!(near(&line[0], &ratio["lower"]), "{line} {ratio}");
            // An interval that is much wider than the ratios differ goes on beyond the chart.
            let is_cut = line[1].as_f64() < ratio["upper"].as_f64();
            assert!(is_cut || near(&line[1], &ratio["upper"]), "{line} {ratio}");
        }
        assert!(lines.next().is_none(), "{series}");
    }
}

/// The words of a chart's marks, as "In words" lists them.
fn listed(browser: &mut Browser, chart: &str) -> Vec<String> {
    let words = browser.value(&format!(
        "document.querySelector('#chart-{chart} .words p').textContent"
    ));
    let words = words.as_str().unwrap().split("; ");
    words.map(str::to_owned).collect()
}

/// The place on the screen of the first mark of a series, in the drawing that is shown.
fn place_of(browser: &mut Browser, chart: &str, series: usize) -> (f64, f64) {
    let place = browser.value(&format!(
        "(() => {{ const mark = Array.from(document.querySelectorAll( \
         '#chart-{chart} .chart [data-series=\"{series}\"] :is(circle, path)')).find((one) => one.getClientRects().length); \
         mark.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
         const box = mark.getBoundingClientRect(); \
         return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
    ));
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

#[test]
fn marks_say_what_they_mean_by_mouse_finger_and_keyboard() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path(), &[&example()]);
    browser.open(&page, DESKTOP);
    let words = listed(&mut browser, "ratio-less");
    let says = |words: &str| format!("{SAID} === {}", json!(words));
    let move_to = |browser: &mut Browser, (x, y): (f64, f64)| {
        let event = json!({ "type": "mouseMoved", "x": x, "y": y });
        browser.ask("Input.dispatchMouseEvent", &event);
    };
    for series in [1, 3] {
        let (x, y) = place_of(&mut browser, "ratio-less", series);
        move_to(&mut browser, (x + 6.0, y - 3.0));
        browser.wait_for(&says(&words[series]));
    }
    move_to(&mut browser, (2.0, 2.0));
    browser.wait_for(&says(""));

    browser.value("document.querySelector('#chart-ratio-less .wide').focus()");
    for (key, wanted) in [
        ("Home", &words[0]),
        ("ArrowRight", &words[1]),
        ("ArrowDown", &words[2]),
        ("Escape", &String::new()),
    ] {
        browser.press(key);
        browser.wait_for(&says(wanted));
    }

    browser.open(&page, PHONE);
    let (x, y) = place_of(&mut browser, "ratio-less", 3);
    for (kind, points) in [
        ("touchStart", json!([{ "x": x, "y": y }])),
        ("touchEnd", json!([])),
    ] {
        let event = json!({ "type": kind, "touchPoints": points });
        browser.ask("Input.dispatchTouchEvent", &event);
    }
    browser.wait_for(&says(&words[3]));
    let is_on_screen = "(() => { const box = document.querySelector('.tip').getBoundingClientRect(); \
                        return box.left >= 0 && box.right <= 390 && box.width > 0; })()";
    assert_eq!(browser.value(is_on_screen), json!(true));
    assert_eq!(browser.complaints(), Vec::<String>::new());
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
    browser.open(&page, DESKTOP);
    browser.value("document.querySelector('[id^=chart-throughput] .wide').focus()");
    browser.press("Home");
    browser.wait_for(&format!("{SAID}.includes('</script>')"));
    let elements = browser.value("document.querySelector('.tip').children.length");
    assert_eq!(elements, json!(0));
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
