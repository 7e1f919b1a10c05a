/** Wrong words are refused before anything is sent, opened or written. */
import { afterAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../test/harness.ts";
import { UsageError } from "../lib/errors.ts";
import { run } from "./index.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const file = (name: string, content: string) => {
  writeFileSync(join(dir, name), content);
  return join(dir, name);
};
const there = file("there", "");
const rows = file("rows.jsonl", '{"input":"a","output":"b"}\n');
const NOWHERE = ["--url", "http://127.0.0.1:1"];
const ofServer = (words: string, ...more: string[]) => [...words.split(" "), ...more, ...NOWHERE];
const local = (words: string, ...more: string[]) => [...words.split(" "), ...more, "--data", join(dir, "none")];

test("the last row of a file counts without a line break, and an empty file has none", async () => {
  const judged = (path: string) =>
    run(ofServer("evaluators run e --rows", path)).catch((reason: unknown) => String(reason));
  expect(await judged(file("open.jsonl", '{"input":"a","output":"b"}'))).not.toContain("no rows");
  expect(await judged(file("none.jsonl", "\n"))).toContain("the file has no rows");
  expect(await judged(file("odd.jsonl", '{"input":"a"}'))).toContain("needs the text output or completion");
});

test.each<[string[], string]>([
  [["jbos"], "There is no command jbos. Did you mean jobs?"],
  [["jobs", "lst"], "There is no command jobs lst. Did you mean jobs list?"],
  [["jobs"], "jobs: name a command: "],
  [ofServer("eval m --evaluator a"), "eval: --dataset is missing"],
  [ofServer("eval m --dataset d"), "eval: --evaluator is missing"],
  [
    ofServer("eval m --dataset d --evaluator a --temperature hot"),
    '--temperature: expected a number such as 0.7, not "hot"',
  ],
  [ofServer("evaluators run e"), "evaluators run: --rows FILE is missing"],
  [ofServer("evaluators run e --limit 0 --rows", rows), "--limit: expected at least 1"],
  [ofServer("jobs create --full --lora r=4"), "--full and --lora exclude each other"],
  [ofServer("jobs create --memory much"), "--memory: expected a size such as 512MiB"],
  [ofServer("jobs create --env A"), '--env: expected NAME=VALUE, not "A"'],
  [ofServer("jobs create --volume lab"), '--volume: expected NAME:/PATH or NAME:/PATH:ro, not "lab"'],
  [ofServer("jobs create --max-cost cheap"), "--max-cost: expected an amount in USD"],
  [ofServer("jobs create", there, "--file", there), "give the file as the argument or with --file, not both"],
  [ofServer("jobs edit sums"), "jobs edit: give --tag, --no-tags, --notes or --group"],
  [ofServer("jobs edit sums --tag a --no-tags"), "jobs edit: give --tag or --no-tags, not both"],
  [ofServer("jobs logs sums --tail some"), "--tail: expected a number of lines"],
  [ofServer("jobs model sums --variant gguuf"), "--variant: expected"],
  [ofServer("jobs model sums --out", there), "exists. Choose another file, or replace it with --force"],
  [local("keys rotate k --grace long"), "--grace: expected a duration such as 2h or 7d"],
  [local("users add a@b.c --operator"), "--operator: only an owner can be an operator"],
  [ofServer("sessions create --env A"), '--env: expected NAME=VALUE, not "A"'],
  [ofServer("volumes rm lab"), "volumes rm: expected a file such as lab:old.bin, not lab"],
  [ofServer("monitors create m --deployment d --metric latency_p95 --alert much"), "--alert: expected a number"],
  [ofServer("agents create a --deployment d --tools {"), "--tools: expected JSON, or @FILE with JSON in it"],
  [ofServer("deploy m --idle-timeout long"), "--idle-timeout: expected a duration such as 90s"],
  [ofServer("deployments switch d"), "--model is missing"],
  [ofServer("datasets pull d --format jsn"), "--format: "],
  [ofServer("regions add r --key ssh_1 --host me"), '--host: expected USER@ADDRESS or USER@ADDRESS:PORT, not "me"'],
  [ofServer("chat d --temperature hot -m hi"), '--temperature: expected a number from 0 to 2, not "hot"'],
  [local("tls client a_b!"), "NAME: expected letters, digits, dots and dashes"],
  [local("tls acme --challenge dns"), "--challenge: expected http-01 or tls-alpn-01"],
  [local("backup create --to", dir), "seal the keys with --passphrase-file or --recipient"],
  [local("backup create --without-keys --keep 0 --to", dir), "--keep: expected 1 or more"],
  [local("backup follow"), "set backup.passphrase_file or recipient_file, or say --without-keys"],
  [local("backup follow --without-keys"), "backup follow: set backup.target"],
  [["licenses", "nothing-like-it"], "licenses: nothing inside is called nothing-like-it"],
  [["completion", "values", "odd"], "completion values: expected"],
  [local("support-bundle --to", there), "exists: choose another name with --to"],
])("%j", async (argv, message) => {
  const error = await run(argv).then(
    (code) => `ended with ${code}`,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UsageError);
  expect((error as UsageError).message).toContain(message);
});
