"use strict";
// Draws the charts, moves the threshold of the confusion matrix and shows trees. Everything comes from the page itself.
const read = (name) => {
  const found = document.getElementById(`data-${name}`);
  return found === null ? null : JSON.parse(found.textContent);
};
const shown = (number) => (Math.abs(number) >= 1000 ? Math.round(number).toLocaleString("en") : Number(number.toPrecision(4)));

const charts = Object.entries(read("charts") || {}).map(([id, specification]) =>
  vegaEmbed(`#${id}`, specification, { actions: false, renderer: "svg", config: { background: "transparent" } }));
Promise.all(charts).then(() => { document.documentElement.dataset.charts = String(charts.length); });

function threshold() {
  // Rows right and wrong at each threshold: counts[i] = [true +, false +, false -, true -].
  const data = read("threshold");
  if (data === null) return;
  const slider = document.getElementById("threshold");
  const put = (name, value) => { document.getElementById(`threshold-${name}`).textContent = value; };
  const move = () => {
    const [tp, fp, fn, tn] = data.counts[slider.value];
    const share = (part, whole) => (whole === 0 ? "none" : `${(100 * part / whole).toFixed(1)} %`);
    put("value", data.thresholds[slider.value].toFixed(2));
    ["tp", "fp", "fn", "tn"].forEach((name, i) => put(name, shown([tp, fp, fn, tn][i])));
    put("precision", share(tp, tp + fp));
    put("recall", share(tp, tp + fn));
    put("accuracy", share(tp + tn, tp + fp + fn + tn));
  };
  slider.addEventListener("input", move);
  move();
}

function trees() {
  // A node is [label, detail, left child or 0, answer left, answer right]; a right child follows its left sibling.
  const data = read("trees");
  if (data === null) return;
  const view = document.getElementById("tree-view");
  const choice = document.getElementById("tree-choice");
  const across = 190, down = 78, width = 176, height = 40;
  const folded = new Set();
  let box = null;
  const element = (parent, name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };
  const fitted = (text) => {
    // Names may be cut, thresholds may not.
    const sign = text.lastIndexOf(" <= "), end = sign < 0 || text.length - sign > 17 ? "" : text.slice(sign);
    return text.length > 27 ? `${text.slice(0, 26 - end.length)}…${end}` : text;
  };
  const draw = () => {
    const nodes = data[choice.value].nodes;
    view.replaceChildren();
    const lines = element(view, "g", {}), boxes = element(view, "g", {});
    let next = 0, deepest = 0;
    const place = (index, depth) => {
      const [label, detail, left, yes, no] = nodes[index];
      const open = left !== 0 && !folded.has(index);
      const below = open ? [place(left, depth + 1), place(left + 1, depth + 1)] : [];
      const x = open ? (below[0] + below[1]) / 2 : next++ * across;
      const y = depth * down;
      deepest = Math.max(deepest, y + height);
      below.forEach((to, side) => {
        element(lines, "path", { d: `M${x},${y + height} C${x},${y + down - 12} ${to},${y + height + 12} ${to},${y + down}` });
        element(lines, "text", { x: (x + to) / 2, y: y + height + 24, "text-anchor": "middle", class: "soft answer" }, side ? no : yes);
      });
      const kind = left === 0 ? "leaf" : open ? "split" : "split folded";
      const group = element(boxes, "g", { class: kind, transform: `translate(${x - width / 2},${y})`, "data-node": index });
      element(group, "rect", { width, height });
      element(group, "text", { x: width / 2, y: 16, "text-anchor": "middle" }, fitted(label));
      element(group, "text", { x: width / 2, y: 32, "text-anchor": "middle", class: "soft" }, detail);
      element(group, "title", {}, `${label}\n${detail}${left === 0 ? "" : "\nClick to fold or unfold."}`);
      if (left !== 0) group.addEventListener("click", () => { folded.has(index) ? folded.delete(index) : folded.add(index); draw(); });
      return x;
    };
    const root = place(0, 0);
    if (box === null) {
      // The whole tree, or as much around its root as can be read.
      const whole = Math.max(4, next) * across, most = Math.max(600, 1.7 * view.clientWidth);
      box = whole <= most ? [-across / 2, -12, whole, 0] : [root - most / 2, -12, most, 0];
      if (next < 4 && whole <= most) box[0] = root - whole / 2;
      view.style.height = `${Math.min(512, Math.max(160, (deepest + 24) * view.clientWidth / box[2]))}px`;
    }
    look();
  };
  const look = () => {
    box[3] = box[2] * (view.clientHeight || 512) / (view.clientWidth || 800);
    view.setAttribute("viewBox", box.join(" "));
  };
  const zoom = (factor) => { const w = box[2]; box[2] *= factor; box[0] += (w - box[2]) / 2; look(); };
  document.getElementById("tree-in").addEventListener("click", () => zoom(0.8));
  document.getElementById("tree-out").addEventListener("click", () => zoom(1.25));
  view.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY < 0 ? 0.9 : 1.1); }, { passive: false });
  let from = null;
  view.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY]; });
  view.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const scale = box[2] / view.clientWidth;
    box[0] -= (event.clientX - from[0]) * scale;
    box[1] -= (event.clientY - from[1]) * scale;
    from = [event.clientX, event.clientY];
    look();
  });
  window.addEventListener("pointerup", () => { from = null; });
  window.addEventListener("resize", look);
  choice.addEventListener("change", () => { folded.clear(); box = null; draw(); });
  draw();
}

threshold();
trees();
