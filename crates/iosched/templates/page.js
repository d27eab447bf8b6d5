"use strict";
(() => {
  const root = document.documentElement;
  const names = ["0", "1", "2", "3", "4", "5", "text", "muted", "grid", "band", "alarm"];

  // The theme's colours, by the names that the charts use.
  const inks = () => {
    const style = getComputedStyle(root);
    const property = (name) => (/^\d$/.test(name) ? "--c" : "--") + name;
    return Object.fromEntries(names.map((name) => ["@" + name, style.getPropertyValue(property(name)).trim()]));
  };
  const painted = (value, ink) => {
    if (typeof value === "string") return value in ink ? ink[value] : value;
    if (Array.isArray(value)) return value.map((one) => painted(one, ink));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, painted(one, ink)]));
    }
    return value;
  };

  // On a touch screen a finger scrolls the page; it does not zoom a chart by accident.
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const hovers = matchMedia("(hover: hover)").matches;
  const config = { responsive: true, displaylogo: false, displayModeBar: hovers && !isTouch ? "hover" : false,
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };

  // Where the library cannot draw a chart (or not in this many ms), the drawing in the page stays.
  const SLOWEST = 15000;
  const orLate = (drawn) => {
    let timer;
    const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error("too slow")), SLOWEST); });
    return Promise.race([drawn, late]).finally(() => clearTimeout(timer));
  };

  const SMALL = 250; // px, of a chart that stands beside many like it

  const draw = async (figure) => {
    const spec = JSON.parse(figure.querySelector("script.spec").textContent);
    const ink = inks();
    const { data, layout } = painted(spec, ink);
    if (isTouch) layout.dragmode = false;
    const isSmall = figure.closest(".small") !== null;
    if (isSmall && !layout.yaxis.ticktext) layout.height = Math.min(layout.height, SMALL);
    const width = figure.clientWidth; // of its column
    if (width < 720) narrow(layout, isSmall ? 18 : width < 480 ? 16 : 24, width < 480 ? 11 : 12);
    layout.hoverlabel = { bgcolor: ink["@grid"], font: { color: ink["@text"] } };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: ink["@muted"], activecolor: ink["@text"] };
    for (const key of keysOf(figure)) for (const trace of tracesOf(key)) data[trace].visible = isShown(key);
    const live = figure.querySelector(".live");
    live.hidden = false;
    await orLate(Plotly.react(live, data, layout, config));
    show(figure, true);
    if (live.dataset.listens) return;
    live.dataset.listens = "yes";
    live.on("plotly_relayout", (change) => ticksFor(live, change));
    for (const key of keysOf(figure)) {
      key.addEventListener("click", () => {
        key.setAttribute("aria-pressed", !isShown(key));
        Plotly.restyle(live, { visible: isShown(key) }, tracesOf(key));
      });
    }
  };

  // The legend: each name hides and shows its series.
  const keysOf = (figure) => figure.querySelectorAll("button.key");
  const tracesOf = (key) => key.dataset.traces.split(" ").map(Number);
  const isShown = (key) => key.getAttribute("aria-pressed") === "true";

  const show = (figure, isLive) => {
    figure.querySelector(".live").hidden = !isLive;
    figure.querySelector(".static").hidden = isLive;
    for (const keys of figure.querySelectorAll(".keys")) keys.hidden = !isLive;
  };

  // Names are escaped for plotly.js, which reads a part of HTML; an entity is one letter, not four.
  const ENTITIES = [["&lt;", "<"], ["&gt;", ">"], ["&amp;", "&"]];
  const BACK = ENTITIES.map(([entity, letter]) => [letter, entity]).reverse();
  const swapped = (text, pairs) => pairs.reduce((changed, [from, to]) => changed.replaceAll(from, to), text);

  // On a narrow screen long names would take the room of what they name.
  const narrow = (layout, most, size) => {
    const title = layout.xaxis.title;
    if (size < 12 && title.text.length > 36) title.font = { size: 10 };
    const rows = layout.yaxis.ticktext;
    if (rows && layout.yaxis.fixedrange) {
      layout.yaxis.ticktext = rows.map((name) => {
        const plain = Array.from(swapped(name, ENTITIES));
        return plain.length > most ? swapped(plain.slice(0, most - 1).join("") + "…", BACK) : name;
      });
      layout.yaxis.tickfont.size = size;
    }
  };

  // Ticks of our own suit the whole axis; on a part of it plotly's suit better.
  const ticksFor = (live, change) => {
    for (const axis of ["xaxis", "yaxis"]) {
      const places = live.layout[axis];
      if (!places || places.type !== "log") continue;
      if (change[axis + ".range[0]"] !== undefined && places.tickmode === "array") {
        Plotly.relayout(live, { [axis + ".tickmode"]: "auto" });
      } else if (change[axis + ".autorange"] && places.tickmode === "auto") {
        Plotly.relayout(live, { [axis + ".tickmode"]: "array" });
      }
    }
  };

  const drawAll = () => Promise.all(Array.from(document.querySelectorAll("figure"), (figure) =>
    draw(figure).catch(() => { Plotly.purge(figure.querySelector(".live")); show(figure, false); })));

  // Light or dark: as the system says, until the reader says otherwise.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const button = document.getElementById("theme");
  button.hidden = false;
  const label = () => { button.setAttribute("aria-label", isDark() ? "Switch to light" : "Switch to dark"); };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); drawAll(); });
  dark.addEventListener("change", () => { label(); drawAll(); });
  label();

  // Tables sort by the column that is clicked: numbers by value, what has none goes last.
  const sort = (table, column, head) => {
    const descending = head.getAttribute("aria-sort") !== "descending" && head.classList.contains("number")
      || head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const sign = descending ? -1 : 1;
    const compare = (a, b) => {
      const [left, right] = [a.cells[column], b.cells[column]];
      const [x, y] = [left.dataset.value, right.dataset.value];
      if (x !== undefined && y !== undefined) return sign * (x - y);
      if (x !== undefined || y !== undefined) return x === undefined ? 1 : -1;
      return sign * left.textContent.localeCompare(right.textContent, "en", { numeric: true });
    };
    const body = table.tBodies[0];
    for (const row of Array.from(body.rows).sort(compare)) body.append(row);
  };
  for (const table of document.querySelectorAll("table.sorts")) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => sort(table, column, head));
    });
  }

  // Data are in the page as text, or as compressed bytes in base64.
  for (const download of document.querySelectorAll("button.download")) {
    download.addEventListener("click", () => {
      const held = JSON.parse(document.getElementById(download.dataset.from).textContent);
      const part = held.text ?? Uint8Array.from(atob(held.base64), (c) => c.charCodeAt(0));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([part], { type: download.dataset.type }));
      link.download = download.dataset.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  drawAll().then(() => { root.dataset.drawn = "yes"; });
})();
