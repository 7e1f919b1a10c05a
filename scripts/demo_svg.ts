/**
 * `./install.sh demo > run.txt; bun scripts/demo_svg.ts run.txt "two cores of an aarch64 machine" > docs/demo.svg` draws
 * the picture of docs/install.md. It shortens the output of a real run: some lines are left out, long ones end with `…`.
 */
import { readFileSync } from "node:fs";

const COLUMNS = 112;
const LINE_PX = 17;
const CHAR_PX = 7.25;
const PAD_PX = 16;
const TOP_PX = 42;

/** Beginnings of the steps that are left out. */
const LEFT_OUT = [
  "create a",
  "follow",
  "store a",
  "retry",
  "list the",
  "append",
  "pull the",
  "see the",
  "stream from",
  "push rows",
  "try the",
  "chat with it as",
  "detect whether",
  "self-test",
];

const [path, machine] = process.argv.slice(2);
if (path === undefined || machine === undefined) {
  console.error('Usage: bun scripts/demo_svg.ts RUN.txt "the machine" > docs/demo.svg');
  process.exit(2);
}
const run = readFileSync(path, "utf8").split("\n");

const isStep = (line: string) => line.startsWith("✓") && !LEFT_OUT.some((start) => line.startsWith(`✓ ${start}`));
const isProgress = (line: string) => /^(running {2}step (8|24)|completed {2}step)/.test(line);
const summaryAt = run.findIndex((line) => /^\d+ steps in /.test(line));
if (summaryAt < 0) throw new Error(`${path} has no line "N steps in …": did the demo succeed?`);
const lines = [
  "$ ./install.sh demo",
  ...run.flatMap((line) => {
    if (isProgress(line)) return [`  ${line.replace(/ {2}(spread|gradient) .*/, "")}`];
    return isStep(line) ? [line] : [];
  }),
  "",
  ...run.slice(summaryAt, summaryAt + 1),
  ...run.slice(summaryAt + 2, summaryAt + 6), // a blank line, then the table of answers
].map((line) => {
  const short = line
    .replace(/, pid \d+/, "")
    .replace(/\b([a-z]+_01\w{4})\w+/g, "$1…")
    .trimEnd();
  return short.length > COLUMNS ? `${short.slice(0, COLUMNS - 1)}…` : short;
});

const share = (column: "before" | "after") => {
  const [before, after] = lines.findLast((line) => line.startsWith("correct answers"))?.match(/\d+ of \d+/g) ?? [];
  return column === "before" ? before : after;
};
const escapeXml = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const classOf = (line: string) => {
  if (/^ {2}(running|completed)/.test(line)) return ' class="dim"';
  return /^(\$|correct answers|\d+ steps in )/.test(line) ? ' class="strong"' : "";
};
const drawn = lines.flatMap((line, i) => {
  const text = escapeXml(line).replace(/^✓/, '<tspan class="ok">✓</tspan>');
  const y = TOP_PX + LINE_PX * i + 4;
  return line === "" ? [] : [`  <text${classOf(line)} x="${PAD_PX}" y="${y}" xml:space="preserve">${text}</text>`];
});
const width = Math.floor(2 * PAD_PX + COLUMNS * CHAR_PX);
const height = TOP_PX + LINE_PX * lines.length + 10;

console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="t d">
  <title id="t">A run of ./install.sh demo</title>
  <desc id="d">Terminal output, shortened. The demo starts a server, stores rows, runs reward code and a command in a sandbox, kills and restarts the server, serves the built-in model and trains it with GRPO. Held-out sums that are right before the training: ${share("before")}. After it: ${share("after")}.</desc>
  <style>
    .back { fill: #f6f8fa; stroke: #d0d7de } .ok { fill: #1a7f37 } .strong { font-weight: 700 }
    text { fill: #1f2328; font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace }
    text.dim { fill: #59636e }
    @media (prefers-color-scheme: dark) {
      .back { fill: #0d1117; stroke: #3d444d } text { fill: #f0f6fc } .ok { fill: #3fb950 } text.dim { fill: #9198a1 }
    }
  </style>
  <rect class="back" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
  <text class="dim" x="${PAD_PX}" y="22">A real run, shortened, on ${escapeXml(machine)}.</text>
${drawn.join("\n")}
</svg>`);
