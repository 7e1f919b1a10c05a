import { expect, test } from "bun:test";
import { contains, fileLines, inWords, isChangeable, variableLine } from "./words.ts";

const SETTING = {
  object: "setting" as const,
  name: "http.listen",
  value: "127.0.0.1:7070",
  default: "127.0.0.1:7070",
  is_default: true,
  meaning: "Address and port to listen on",
  source: "default",
  set_by: "default" as const,
  variable: "VERK_HTTP__LISTEN",
  needs_restart: true,
  changed_at: null,
};

test("lines for the file and the environment can be copied as they are", () => {
  expect(fileLines("http.listen", "0.0.0.0:80")).toBe('[http]\nlisten = "0.0.0.0:80"');
  expect(fileLines("offline", true)).toBe("offline = true");
  expect(Bun.TOML.parse(fileLines("network.allow", ["a", 'b"c']))).toEqual({ network: { allow: ["a", 'b"c'] } });
  expect(variableLine("VERK_NETWORK__ALLOW", ["a", "b"])).toBe("VERK_NETWORK__ALLOW=a,b");
  expect(variableLine("VERK_DATA_DIR", "/it's here")).toBe("VERK_DATA_DIR='/it'\\''s here'");
});

test("figures have their size in words", () => {
  expect(inWords("datasets.max_append_bytes", 67_108_864)).toBe("64 MiB");
  expect(inWords("workers.silence_ms", 30_000)).toBe("30 s");
  expect(inWords("training.max_runtime_minutes", 10_080)).toBe("7 d");
  expect([inWords("serving.parallel", 8), inWords("quotas.file_bytes", 0)]).toEqual([undefined, undefined]);
});

test("a setting that something else sets is not changed on the page", () => {
  const live = { ...SETTING, needs_restart: false };
  const by = (set_by: "default" | "dashboard" | "file") => isChangeable({ ...live, set_by });
  expect([isChangeable(SETTING), by("default"), by("dashboard"), by("file")]).toEqual([false, true, true, false]);
});

test("a search finds every word, in the name, the meaning and the value", () => {
  expect(contains(SETTING, "port http")).toBe(true);
  expect(contains(SETTING, "7070")).toBe(true);
  expect(contains(SETTING, "port ftp")).toBe(false);
});
