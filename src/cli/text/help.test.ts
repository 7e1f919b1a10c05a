import { beforeAll, describe, expect, test } from "bun:test";
import { runVerk } from "../../../test/cli.ts";
import { tempDir } from "../../../test/harness.ts";
import type { Command, Group } from "../args.ts";
import { isGroup } from "../args.ts";
import { COMMANDS, loadCommands } from "../command_table.ts";
import { bashScript, fishScript, type Named, zshScript } from "./completion.ts";
import { helpOf, overview, usageWords } from "./help.ts";

let commands: Named[] = [];
beforeAll(async () => {
  commands = await loadCommands();
});
const entryOf = (name: string) => commands.find((each) => each.name === name)?.entry as Group;
const subOf = (name: string, sub: string) => entryOf(name).subcommands[sub] as Command;

/** The help page of every command, subcommand and group. */
const helpPages = () =>
  commands.flatMap(({ name, entry }) => [
    [name, helpOf(name, entry)] as const,
    ...(isGroup(entry)
      ? Object.entries(entry.subcommands).map(
          ([sub, spec]) => [`${name} ${sub}`, helpOf(`${name} ${sub}`, spec)] as const,
        )
      : []),
  ]);

describe("F28 help", () => {
  test("F28 no line is wider than 100 columns, except an example", () => {
    const wide = [["verk", overview(COMMANDS)] as const, ...helpPages()].flatMap(([name, page]) =>
      page
        .split("\n")
        .filter((line) => Bun.stringWidth(line) > 100 && !/^ {2}(verk|zcat|echo|git) /.test(line))
        .map((line) => `${name}: ${line}`),
    );
    expect(wide).toEqual([]);
  });

  test("F28 every page shows usage, flags, an example and exit codes", () => {
    const lacking = helpPages().flatMap(([name, page]) => {
      const words = page.includes("<command>") ? ["Commands:"] : ["Flags:", "Exit codes:"];
      return [`verk ${name}`, "Examples:", ...words].filter((word) => !page.includes(word)).map((word) => [name, word]);
    });
    expect(lacking).toEqual([]);
    expect(helpPages().length).toBeGreaterThan(60);
  });

  test("F28 a subcommand shows its own flags and exit codes, and no other's", () => {
    const page = helpOf("jobs create", subOf("jobs", "create"));
    expect(page).toContain("--method METHOD");
    for (const other of ["Only jobs with this method", "has no result yet", "FILE is unchanged", "config check"])
      expect(page).not.toContain(other);
    expect(helpOf("datasets pull", subOf("datasets", "pull"))).toContain("jsonl, csv (exact, for programs) or");
    expect(helpOf("keys create", subOf("keys", "create"))).toContain("a running server holds the data directory");
  });

  test("usage shows what a command takes, and the value of each flag", () => {
    const flags = {
      model: { type: "string", value: "NAME", doc: "" },
      tag: { type: "string", multiple: true, doc: "" },
      json: { type: "boolean", doc: "" },
    } as const;
    const words = usageWords("jobs do", { summary: "", takes: ["job", "file?"], flags, examples: [] } as never);
    expect(words).toEqual(["verk", "jobs do", "<job>", "[file]", "[--model NAME]", "[--tag VALUE]…", "[--json]"]);
  });

  test("F28 a group lists its commands and says where their flags are", () => {
    const page = helpOf("jobs", entryOf("jobs"));
    for (const sub of Object.keys(entryOf("jobs").subcommands)) expect(page).toMatch(new RegExp(`^  ${sub} `, "m"));
    expect(page).toContain("`verk help jobs <command>`");
    expect(page).not.toContain("--method METHOD");
  });
});

/** \`verk\` of the script is a function that answers for the server. */
async function completed(line: string): Promise<string[]> {
  const words = line.split(" ");
  const script = `${bashScript(commands)}
verk() { [ "$*" = "completion values models" ] && printf '%s\\n' verk-tiny 'team/$(id)' carry; }
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _verk; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const child = Bun.spawn(["bash", "--norc", "-euc", script], { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect([await child.exited, err]).toEqual([0, ""]);
  return out.trim().split("\n");
}

test("a version is one line, JSON, or its help page", async () => {
  const verk = (...args: string[]) => runVerk(args, { cwd: tempDir() });
  const [line, alias, json, help, short] = await Promise.all([
    verk("version"),
    verk("--version"),
    verk("version", "--json"),
    verk("version", "--help"),
    verk("version", "-h"),
  ]);
  expect(line.out).toMatch(/^verk \S+ \(\w+\)\n$/);
  expect(alias.out).toBe(line.out);
  expect(line.out).toStartWith(`verk ${json.json().version} `);
  expect(help.out).toContain("Usage:\n  verk version");
  expect(short.out).toBe(help.out);
});

describe("F28 completion", () => {
  test.each([
    ["verk dep", ["deploy", "deployments"]],
    ["verk jobs c", ["create", "checkpoints", "compare", "cancel"]],
    ["verk jobs create --me", ["--method", "--memory"]],
    ["verk jobs create --dataset sums.jsonl --wa", ["--watch"]],
    ["verk help dat", ["datasets"]],
    ["verk detect photo.jpg --thr", ["--threshold"]],
    ["verk deploy verk-tiny x", [""]],
    ["verk jobs create --method dp", ["dpo"]],
    ["verk jobs create --method = s", ["sft"]],
    ["verk jobs list --status pa", ["paused"]],
    ["verk keys create --scope inf", ["inference"]],
    ["verk deploy ve", ["verk-tiny"]],
    ["verk run ca", ["carry"]],
    ["verk jobs create --model te", ["team/$(id)"]],
    ["verk chat demo", [""]],
  ])("F28 bash completes %s", async (line, expected) => {
    expect(await completed(line)).toEqual(expected);
  });

  test("F28 the scripts of zsh and fish name every command and flag", () => {
    for (const { name, entry } of commands)
      for (const spec of isGroup(entry) ? Object.values(entry.subcommands) : [entry])
        for (const flag of Object.keys(spec.flags)) {
          expect(zshScript(commands)).toContain(`--${flag}`);
          expect(fishScript(commands)).toMatch(new RegExp(`from ${name}.* -l ${flag} `));
        }
  });
});
