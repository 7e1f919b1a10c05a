/** The alert rules and the dashboard of docs/monitoring name metrics that exist. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const DOCS = resolve(import.meta.dir, "../../docs");
const textOf = (name: string) => readFileSync(join(DOCS, name), "utf8");
const FILES = ["monitoring/alerts.yml", "monitoring/grafana.json"];
const documented = textOf("metrics.md");

test.each(FILES)("every metric in %s is in docs/metrics.md", (file) => {
  const names = new Set(textOf(file).match(/\b(?:verk|process)_[a-z_]+[a-z]\b/g));
  const unknown = [...names].filter((name) => !documented.includes(`\`${name.replace(/_bucket$/, "")}\``));
  expect(unknown).toEqual([]);
  expect(names.size).toBeGreaterThan(10);
});

test("each alert says what happened and what to do", () => {
  const { groups } = Bun.YAML.parse(textOf("monitoring/alerts.yml")) as {
    groups: { rules: { alert: string; labels: { severity: string }; annotations: Record<string, string> }[] }[];
  };
  for (const { alert, labels, annotations } of groups.flatMap(({ rules }) => rules))
    expect([alert, labels.severity, Object.keys(annotations).sort()]).toEqual([
      alert,
      expect.stringMatching(/^(warning|critical)$/),
      ["action", "summary"],
    ]);
});

test("the panels of the dashboard do not overlap, and each has a query", () => {
  const { panels } = JSON.parse(textOf("monitoring/grafana.json"));
  const corners = panels.map(({ gridPos: { x, y } }: { gridPos: { x: number; y: number } }) => `${x},${y}`);
  expect(new Set(corners).size).toBe(panels.length);
  for (const { targets } of panels) expect(targets.length).toBeGreaterThan(0);
});

test.skipIf(Bun.which("promtool") === null)("promtool accepts the rules, and its tests of them pass", async () => {
  for (const words of [
    ["check", "rules", "alerts.yml"],
    ["test", "rules", "alerts.test.yml"],
  ]) {
    const child = Bun.spawn(["promtool", ...words], { cwd: join(DOCS, "monitoring"), stdout: "pipe", stderr: "pipe" });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    expect([words.join(" "), await child.exited, out + err]).toEqual([words.join(" "), 0, expect.any(String)]);
  }
});
