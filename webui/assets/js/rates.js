// The rate of a task from the numbers that arrive: a moving mean, and its sparkline.
import { svg } from "./dom.js";

const SECONDS = 120;
const MEAN_SECONDS = 12;

/** Samples of one task; `add` returns the rate now, or null while there are too few. */
export class Rates {
  constructor() {
    this.samples = [];
    this.line = [];
  }

  add(octets, at = Date.now() / 1000) {
    this.samples.push([at, octets]);
    while (this.samples.length > 2 && this.samples[1][0] < at - MEAN_SECONDS) this.samples.shift();
    const [first, last] = [this.samples[0], this.samples[this.samples.length - 1]];
    if (last[0] - first[0] < 1) return null;
    const rate = Math.max(0, (last[1] - first[1]) / (last[0] - first[0]));
    this.line.push([at, rate]);
    while (this.line[0][0] < at - SECONDS) this.line.shift();
    return rate;
  }

  draw(drawing) {
    const { width, height } = drawing.viewBox.baseVal;
    const highest = Math.max(...this.line.map(([, rate]) => rate), 1);
    const end = this.line[this.line.length - 1][0];
    const points = this.line.map(([at, rate]) => `${(width * (1 - (end - at) / SECONDS)).toFixed(1)},${(height - 1 - (height - 2) * (rate / highest)).toFixed(1)}`);
    drawing.replaceChildren(svg("polyline", { points: points.join(" ") }));
  }
}
