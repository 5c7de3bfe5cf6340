// Names beside what they name: marks for Plot that know the scales, so labels keep off each other.

import { s } from "./dom.js";

export const LINE = 15; // px from one label's baseline to the next
const pen = document.createElement("canvas").getContext("2d");

export function textWidth(text, size = 12) {
  pen.font = `${size}px system-ui, sans-serif`;
  return pen.measureText(text).width * 1.04;
}

export const shorten = (text, most = 36) =>
  text.length > most ? text.slice(0, most - 1) + "…" : text;

/** Room that labels at the right edge need. */
export const labelRoom = (texts) =>
  Math.ceil(Math.max(0, ...texts.map((t) => textWidth(shorten(t))))) + 22;

const label = (x, y, text, anchor = "start") =>
  s("text", { x, y, dy: "0.32em", "text-anchor": anchor, class: "label" }, shorten(text));

/** Positions near `wanted`, in its order, at least `gap` apart, within [low, high] if they fit. */
export function spread(wanted, gap, low, high) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const at = [...wanted];
  order.forEach((i, k) => (at[i] = Math.max(at[i], k ? at[order[k - 1]] + gap : low)));
  for (let k = order.length - 1, bound = high; k >= 0; --k, bound = at[order[k + 1]] - gap)
    at[order[k]] = Math.min(at[order[k]], bound);
  return at;
}

/** A column of labels right of the frame, each with a leader to where its line ends. */
export const endLabels = (items) => (_, scales, __, frame) => {
  const left = frame.width - frame.marginRight + 18;
  const ends = items.map((item) => [scales.x(item.x), scales.y(item.y)]);
  const rows = spread(
    ends.map(([, y]) => y),
    LINE,
    frame.marginTop,
    frame.height - frame.marginBottom,
  );
  return s(
    "g",
    { "aria-hidden": "true" },
    items
      .map((item, i) => [
        s("path", {
          d: `M${ends[i][0]},${ends[i][1]}L${left - 12},${rows[i]}H${left - 3}`,
          fill: "none",
          stroke: item.colour,
          "stroke-opacity": 0.7,
        }),
        label(left, rows[i], item.text),
      ])
      .flat(),
  );
};

// Small boxes along a line, close enough that no label fits between them.
function alongPath(points) {
  const boxes = [];
  for (let i = 1; i < points.length; ++i) {
    const [[x1, y1], [x2, y2]] = [points[i - 1], points[i]];
    const steps = Math.ceil(Math.hypot(x2 - x1, y2 - y1) / 8);
    for (let k = 0; k < steps; ++k) {
      const [px, py] = [x1 + ((x2 - x1) * k) / steps, y1 + ((y2 - y1) * k) / steps];
      boxes.push([px - 3, py - 3, px + 3, py + 3]);
    }
  }
  return boxes;
}

const overlap = (a, b) =>
  Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) *
  Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));

// Where a label may stand: close by first, then farther out on a leader.
function* places([x, y], width) {
  for (const far of [11, 24, 40, 58])
    for (const [dx, dy] of [
      [1, 0],
      [-1, 0],
      [0.75, -1],
      [0.75, 1],
      [-0.75, -1],
      [-0.75, 1],
      [0, -1],
      [0, 1],
    ]) {
      const cx = x + dx * far,
        cy = y + dy * far * 0.85;
      const left = dx > 0 ? cx : dx < 0 ? cx - width : cx - width / 2;
      yield { far, left, cy, box: [left - 2, cy - 8, left + width + 2, cy + 8] };
    }
}

/**
 * Labels beside points of a scatter: none over another, over a point or outside the frame where that
 * can be had. Items: {x, y, text, colour, xs?: [low, high], ys?: [low, high]}, the intervals to keep off
 * as well; `paths`: lines to keep off, each a list of {x, y}.
 */
export const pointLabels =
  (items, paths = []) =>
  (_, { x, y }, __, frame) => {
    const points = items.map((item) => [x(item.x), y(item.y)]);
    const taken = points.map(([px, py]) => [px - 7, py - 7, px + 7, py + 7]);
    for (const { x: px, y: py, xs, ys } of items) {
      if (xs) taken.push([x(xs[0]), y(py) - 2, x(xs[1]), y(py) + 2]);
      if (ys) taken.push([x(px) - 2, y(ys[1]), x(px) + 2, y(ys[0])]);
    }
    for (const path of paths)
      taken.push(...alongPath(path.map((point) => [x(point.x), y(point.y)])));
    const outside = (box) =>
      box[0] < frame.marginLeft + 2 ||
      box[2] > frame.width - 2 ||
      box[1] < 2 ||
      box[3] > frame.height - frame.marginBottom;
    return s(
      "g",
      { "aria-hidden": "true" },
      items
        .map((item, i) => {
          const width = textWidth(shorten(item.text));
          let best = null;
          for (const place of places(points[i], width)) {
            const cost =
              taken.reduce((sum, box) => sum + overlap(box, place.box), 0) +
              (outside(place.box) ? 1e4 : 0) +
              place.far;
            if (!best || cost < best.cost) best = { ...place, cost };
          }
          taken.push(best.box);
          const near = Math.max(best.left - 2, Math.min(points[i][0], best.left + width + 2));
          return [
            best.far > 11
              ? s("path", {
                  d: `M${points[i]}L${near},${best.cy}`,
                  stroke: item.colour,
                  "stroke-opacity": 0.7,
                })
              : null,
            label(best.left, best.cy, item.text),
          ];
        })
        .flat()
        .filter(Boolean),
    );
  };

const LEGEND_LINE = 19;

/** Where each entry of a legend stands, in as many lines as `width` asks for. */
function legendPlaces(entries, width) {
  let x = 0,
    line = 0;
  return entries.map(([text]) => {
    const room = textWidth(shorten(text)) + 32;
    if (x && x + room > width) [x, line] = [0, line + 1];
    x += room;
    return { x: x - room, y: line * LEGEND_LINE };
  });
}

export const legendHeight = (entries, width) => legendPlaces(entries, width).at(-1).y + LEGEND_LINE;

/** Adds swatches with names in the top margin, so that an exported chart explains itself. */
export function withLegend(svg, entries, top = 9) {
  const places = legendPlaces(entries, Number(svg.getAttribute("width")));
  svg.append(
    s(
      "g",
      { transform: `translate(2,${top})` },
      entries
        .map(([text, colour, hollow], i) => [
          s("rect", {
            x: places[i].x,
            y: places[i].y - 5,
            width: 11,
            height: 11,
            rx: 2,
            fill: hollow ? "none" : colour,
            stroke: colour,
          }),
          label(places[i].x + 17, places[i].y + 1, text),
        ])
        .flat(),
    ),
  );
  return svg;
}
