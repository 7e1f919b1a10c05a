import { beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../../test/packages_kit.ts";
import { isGroup } from "../args.ts";
import { loadCommands } from "../command_table.ts";
import type { Named } from "./completion.ts";
import { manPage, roff } from "./man.ts";

let commands: Named[] = [];
let page = "";
beforeAll(async () => {
  commands = await loadCommands();
  page = manPage({ commands, version: "1.2.3", date: "2027-01-15" });
});

test("the manual page explains every command, subcommand and flag", () => {
  const specs = commands.flatMap(({ name, entry }) =>
    isGroup(entry)
      ? Object.entries(entry.subcommands).map(([sub, spec]) => ({ name: `${name} ${sub}`, spec }))
      : [{ name, spec: entry }],
  );
  expect(specs.length).toBeGreaterThan(60);
  for (const { name, spec } of specs) {
    expect(page).toContain(`.SS "verk ${roff(name)}"`);
    for (const flag of Object.keys(spec.flags)) expect(page).toContain(`\\fB${roff(`--${flag}`)}\\fR`);
  }
});

test.skipIf(Bun.which("man") === null)("man formats the page without a warning", () => {
  const dir = mkdtempSync(join(tmpdir(), "verk-man-"));
  writeFileSync(join(dir, "verk.1"), page);
  const { code, out, err } = run(["man", "--warnings", "-E", "UTF-8", "-P", "cat", "-l", join(dir, "verk.1")]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toContain("verk jobs create");
  rmSync(dir, { recursive: true, force: true });
});

test("text of a person is never an instruction of roff", () => {
  expect(roff(".so /etc/passwd")).toBe("\\&.so /etc/passwd");
  expect(roff("first\n'second")).toBe("first\n\\&'second");
  expect(roff("a\\b --flag")).toBe("a\\eb \\-\\-flag");
});
