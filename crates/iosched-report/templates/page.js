"use strict";
(() => {
  const root = document.documentElement;
  const svgs = document.querySelectorAll(".chart svg");

  // What can be pointed at in a chart: bars, markers, points of lines, marks behind them. The browser
  // would show their titles, too, so they are taken out of the drawing.
  const titles = new Map();
  for (const title of document.querySelectorAll(".chart title")) {
    titles.set(title.parentNode, title.textContent);
    title.remove();
  }

  // A mark: its series (none behind the series), the box around it and its words, which may be missing.
  // Boxes are in units of the drawing, which can be asked for them only while it is shown.
  const known = new Map();
  const marksOf = (svg) => {
    if (known.has(svg)) return known.get(svg);
    const marks = [];
    const add = (shape, { x, y, width = 0, height = 0 }, words) => {
      const at = { x: x + width / 2, y: y + height / 2 };
      marks.push({ series: shape.closest("[data-series]"), box: { x, y, width, height }, at, words });
    };
    for (const shape of svg.querySelectorAll("rect, circle, path")) add(shape, shape.getBBox(), titles.get(shape));
    for (const line of svg.querySelectorAll("[data-words]")) {
      const words = line.dataset.words.split("\n");
      const isTold = line.dataset.words !== "";
      Array.from(line.points).forEach((point, index) => {
        if (!isTold || words[index]) add(line, point, words[index]);
      });
    }
    const order = ({ series }) => (series ? Number(series.dataset.series) : Infinity);
    marks.sort((a, b) => order(a) - order(b) || 0);
    known.set(svg, marks);
    return marks;
  };
  const isShown = ({ series }) => !series?.classList.contains("off");

  // A place of an axis as its value, with as many digits as the drawing can show.
  const reading = (axis, px) => {
    const [title, isLog, from, to, first, last] = JSON.parse(axis);
    const share = (px - first) / (last - first);
    const value = isLog ? from * (to / from) ** share : from + (to - from) * share;
    const step = Math.abs((isLog ? value * Math.log(to / from) : to - from) / (last - first));
    const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step))));
    return `${title}: ${value.toFixed(digits)}`;
  };
  const wordsOf = (svg, { series, at, words }) => {
    if (words) return words;
    const { x, y } = svg.dataset;
    return [series?.dataset.name, x && reading(x, at.x), y && reading(y, at.y)].filter(Boolean).join("; ");
  };

  // The words of one mark, near it.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  document.body.append(tip);
  const frame = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  frame.setAttribute("class", "chosen-mark");
  frame.setAttribute("rx", 5);
  let chosen = null;
  const hide = () => {
    chosen = null;
    tip.textContent = "";
    frame.remove();
  };
  const show = (svg, mark) => {
    if (chosen === mark) return;
    chosen = mark;
    const { x, y, width, height } = mark.box;
    const sides = { x: x - 3, y: y - 3, width: width + 6, height: height + 6 };
    for (const [name, value] of Object.entries(sides)) frame.setAttribute(name, value);
    svg.append(frame);
    tip.textContent = wordsOf(svg, mark);
    const place = new DOMPoint(mark.at.x, mark.at.y).matrixTransform(svg.getScreenCTM());
    const size = tip.getBoundingClientRect();
    const left = Math.min(place.x - size.width / 2, root.clientWidth - size.width - 8);
    const above = place.y - size.height - 14;
    tip.style.left = `${Math.max(left, 8) + scrollX}px`;
    tip.style.top = `${(above < 0 ? place.y + 14 : above) + scrollY}px`;
  };

  // The mark at a place of the screen: the nearest within reach, one of a series before one behind them.
  const REACH = 32; // px
  const nearest = (svg, event) => {
    const matrix = svg.getScreenCTM();
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let [best, least] = [null, Infinity];
    for (const mark of marksOf(svg)) {
      const { box, at, series } = mark;
      const outside = Math.hypot(
        Math.max(box.x - x, 0, x - box.x - box.width),
        Math.max(box.y - y, 0, y - box.y - box.height),
      ) * matrix.a;
      if (outside > (series ? REACH : 8) || !isShown(mark)) continue;
      const rank = (series ? 0 : REACH) + outside + Math.hypot(at.x - x, at.y - y) / 1000;
      if (rank < least) [best, least] = [mark, rank];
    }
    return best;
  };

  // By keyboard: along a series, to the nearest mark of another one, to either end.
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-Infinity, 0], End: [Infinity, 0] };
  const step = (svg, [along, across]) => {
    const marks = marksOf(svg).filter(isShown);
    if (!marks.length) return;
    const index = marks.indexOf(chosen);
    if (index < 0 || along) {
      show(svg, marks[Math.min(Math.max(index < 0 ? 0 : index + along, 0), marks.length - 1)]);
      return;
    }
    const all = Array.from(new Set(marks.map(({ series }) => series)));
    const next = all[(all.indexOf(chosen.series) + across + all.length) % all.length];
    const distance = ({ at }) => Math.hypot(at.x - chosen.at.x, at.y - chosen.at.y);
    const others = marks.filter(({ series }) => series === next);
    show(svg, others.reduce((best, mark) => (distance(mark) < distance(best) ? mark : best)));
  };

  for (const svg of svgs) {
    const look = (event) => {
      const mark = nearest(svg, event);
      if (mark) show(svg, mark);
      else hide();
    };
    svg.tabIndex = 0;
    svg.addEventListener("pointermove", look);
    svg.addEventListener("pointerdown", look);
    // A finger that is lifted leaves the words to be read.
    svg.addEventListener("pointerleave", ({ pointerType }) => { if (pointerType !== "touch") hide(); });
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) step(svg, [0, 0]); });
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      if (!(event.key in STEPS) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      step(svg, STEPS[event.key]);
    });
  }
  document.addEventListener("pointerdown", ({ target }) => { if (!target.closest(".chart svg")) hide(); });
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") hide(); });
  addEventListener("resize", hide);

  // The legend: each name hides and shows its series, in every drawing of the chart.
  for (const key of document.querySelectorAll("button.key")) {
    key.disabled = false;
    key.addEventListener("click", () => {
      const isOn = key.getAttribute("aria-pressed") !== "true";
      key.setAttribute("aria-pressed", isOn);
      hide();
      for (const number of key.dataset.series.split(" ")) {
        const groups = key.closest("figure").querySelectorAll(`g[data-series="${number}"]`);
        for (const group of groups) group.classList.toggle("off", !isOn);
      }
    });
  }

  root.dataset.live = "yes";
})();
