import { afterAll, describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import type { Source } from "../../src/lib/source.ts";
import { open } from "../../src/workers/connector/hf.ts";
import { cuttingProxy } from "../servers/proxy.ts";
import { describeWith, judge } from "../servers/servers.ts";
import { startFakeHf } from "./fake_hf.ts";
import { faultOf } from "./formats_kit.ts";
import {
  calm,
  chunksOf,
  expectFlat,
  expectSilence,
  LARGE_ROWS,
  largeFile,
  numbered,
  openSource,
  readLarge,
  readRows,
} from "./objects_kit.ts";
import { rowsAsParquet } from "./parquet_writer.ts";

const [a, b, c] = [numbered(3), numbered(3, 3), numbered(3, 6)];
const lines = (rows: readonly string[]) => `${rows.join("\n")}\n`;
const CONFIGS = `---
license: mit
configs:
- config_name: small
  data_files:
  - split: train
    path: [parts/one.jsonl, "parts/t*.jsonl.gz"]
  - split: held out
    path: parts/three.csv
- config_name: whole
  default: true
  data_files: "**/*.jsonl"
---
# A dataset
`;

const hub = startFakeHf({
  "lab/plain": {
    files: {
      "README.md": "# no words about files",
      ".gitattributes": "",
      "train.jsonl": lines(a),
      "test.jsonl": lines(b),
    },
  },
  "lab/declared": {
    files: {
      "README.md": CONFIGS,
      "parts/one.jsonl": lines(a),
      "parts/two.jsonl.gz": gzipSync(lines(b)),
      "parts/three.csv": "id\n6\n",
    },
  },
  "lab/sharded": {
    files: {
      "data/train-00001-of-00002.parquet": rowsAsParquet(["second"]),
      "data/train-00000-of-00002.parquet": rowsAsParquet(["first"]),
      "data/extra-00000-of-00001.parquet": rowsAsParquet(["extra"]),
      "data/train.csv": "id\nnot read\n",
    },
  },
  "lab/empty": { files: { "train.jsonl": "" } },
  "lab/pictures": { files: { "a.png": "x", "b.png": "x", "notes.txt": "x" } },
  "lab/secret": { files: { "rows.jsonl": lines(c) }, token: "hf_MARKEDtoken" },
  "lab/gated": { files: {}, gated: true },
  "lab/cut": { files: { "train.jsonl": lines(numbered(60_000)) } },
  "lab/large": { files: { "train.jsonl": largeFile() } },
});
afterAll(() => hub[Symbol.dispose]());

type HubConfig = NonNullable<Source["hub_config"]>;
const at = (hub_dataset: string, hub_config: HubConfig = {}, token?: string, allow?: string[]) =>
  openSource(
    { open, source: { source_type: "hf", hub_dataset, hub_config }, credentials: token === undefined ? {} : { token } },
    { hubEndpoint: hub.url, ...(allow ? { allow } : {}) },
  );
const ids = (rows: string[]) => rows.map((row) => Number(JSON.parse(row).id));

describeWith(
  "the fake hub, judged by Hugging Face's own client",
  () => judge("@huggingface/hub"),
  ({ listFiles, downloadFile }) => {
    const repo = { type: "dataset", name: "lab/secret" };
    test("lists every page and follows the redirect of a file", async () => {
      const paths: string[] = [];
      const sharded = { type: "dataset", name: "lab/sharded" };
      for await (const { type, path } of listFiles({ repo: sharded, recursive: true, hubUrl: hub.url }))
        if (type === "file") paths.push(path);
      expect(paths.sort()).toEqual([
        "data/extra-00000-of-00001.parquet",
        "data/train-00000-of-00002.parquet",
        "data/train-00001-of-00002.parquet",
        "data/train.csv",
      ]);
      const blob = await downloadFile({
        repo: { type: "dataset", name: "lab/plain" },
        path: "train.jsonl",
        hubUrl: hub.url,
        xet: false,
      });
      expect(await blob.text()).toBe(lines(a));
    });

    test("asks for a token", async () => {
      const given = { repo, path: "rows.jsonl", hubUrl: hub.url, xet: false };
      expect(await downloadFile(given).catch((error: Error & { statusCode: number }) => error.statusCode)).toBe(401);
      const listed: string[] = [];
      for await (const { path } of listFiles({ repo, recursive: true, hubUrl: hub.url, accessToken: "hf_MARKEDtoken" }))
        listed.push(path);
      expect(listed).toContain("rows.jsonl");
    });
  },
);

describe("files of a split", () => {
  test.each<[dataset: string, config: HubConfig, expected: number[]]>([
    ["lab/plain", {}, [0, 1, 2]],
    ["lab/plain", { split: "test" }, [3, 4, 5]],
    ["lab/declared", {}, [0, 1, 2]],
    ["lab/declared", { config: "small" }, [0, 1, 2, 3, 4, 5]],
    ["lab/declared", { config: "small", split: "held out" }, [6]],
    ["lab/declared", { revision: "main" }, [0, 1, 2]],
    ["lab/empty", {}, []],
  ])("%s %j", async (dataset, config, expected) => {
    const connector = at(dataset, config);
    await connector.test(calm());
    expect(ids(await readRows(connector))).toEqual(expected);
  });

  test("shards come in order, in the one format that most have", async () => {
    const connector = at("lab/sharded");
    expect(await connector.columns(calm())).toEqual(["id", "text"]);
    expect(await connector.count(calm())).toBe(2);
    expect((await readRows(connector)).map((row) => JSON.parse(row).text)).toEqual(["first", "second"]);
    expect((await readRows(at("lab/sharded", { split: "extra" }))).map((row) => JSON.parse(row).text)).toEqual([
      "extra",
    ]);
  });

  test.each<[dataset: string, config: HubConfig, param: string, message: string]>([
    ["lab/plain", { split: "train[:10%]" }, "/hub_config/split", "has no split train[:10%]. Choose one of test, train"],
    ["lab/plain", { config: "x" }, "/hub_config/config", "has no configuration x. Choose one of default"],
    [
      "lab/declared",
      { config: "large" },
      "/hub_config/config",
      "has no configuration large. Choose one of small, whole",
    ],
    ["lab/plain", { revision: "v9" }, "/hub_config/revision", "has no such revision"],
    ["lab/pictures", {}, "/hub_dataset", "has no JSONL, CSV or Parquet file in train (it has .png, .txt)"],
  ])("%s %j does not exist, and the error lists the existing ones", async (dataset, config, param, message) => {
    const fault = await faultOf(at(dataset, config).test(calm()));
    expect([fault.code, fault.param]).toEqual(["not_found", param]);
    expect(fault.message).toContain(message);
  });

  test("an invalid name is refused", async () => {
    for (const name of ["../api", "a/b/c", "", "a b"]) {
      const fault = await faultOf(Promise.resolve().then(() => at(name)));
      expect([fault.code, fault.param]).toEqual(["invalid_source", "/hub_dataset"]);
    }
  });
});

describe("a token", () => {
  test("opens private files, and goes only to the hub", async () => {
    hub.requests.length = 0;
    expect(ids(await readRows(at("lab/secret", {}, "hf_MARKEDtoken")))).toEqual([6, 7, 8]);
    const store = hub.requests.filter(({ at }) => at === "store");
    expect(store.length).toBeGreaterThan(0);
    expect(store.every(({ authorization }) => authorization === null)).toBe(true);
    const requests = hub.requests.filter(({ at }) => at === "hub");
    expect(requests.every(({ authorization }) => authorization === "Bearer hf_MARKEDtoken")).toBe(true);
  });

  test.each<[dataset: string, token: string | undefined, message: string]>([
    ["lab/secret", undefined, "is private and needs hub_config.token"],
    ["lab/secret", "hf_MARKEDwrong", "the token may not read it"],
    ["lab/nowhere", undefined, "it does not exist, or is private"],
    ["lab/gated", "hf_MARKEDtoken", "only to users who accepted its terms"],
  ])("%s with the token %p is refused with a message that does not repeat it", async (dataset, token, message) => {
    const fault = await faultOf(at(dataset, {}, token).test(calm()));
    expect([fault.code, fault.param]).toEqual(["unauthorized", "/hub_config/token"]);
    expect(fault.message).toContain(message);
    expectSilence(fault, ["MARKED"]);
  });
});

describe("the way to the bytes", () => {
  test("is checked at every hop", async () => {
    const refused = await faultOf(at("lab/plain", {}, undefined, []).test(calm()));
    expect(refused.code).toBe("address_refused");
    const redirected = await faultOf(at("lab/plain", {}, undefined, ["127.0.0.1"]).test(calm()));
    expect(redirected.code).toBe("address_refused"); // the store is localhost, which is another name
    expectSilence(redirected, ["MARKED"]);
  });

  test("is requested again when the address has expired", async () => {
    const connector = at("lab/plain");
    await connector.test(calm());
    hub.expire();
    expect(ids(await readRows(connector))).toEqual([0, 1, 2]);
  });

  test("resumes where it was cut, and fails after too many cuts", async () => {
    using proxy = cuttingProxy(hub.storePort);
    hub.redirectTo(proxy.port);
    try {
      const connector = at("lab/cut");
      await connector.test(calm());
      proxy.cutAfter(1_000_000);
      const rows = await readRows(connector);
      expect(Bun.hash(lines(rows))).toBe(Bun.hash(lines(numbered(60_000))));
      proxy.cutAfter(500_000, { refuse: true });
      const fault = await faultOf(readRows(connector));
      expect(fault.code).toBe("broken");
      expectSilence(fault, ["MARKED"]);
    } finally {
      hub.redirectTo(hub.storePort);
    }
  });

  test("resumes after any piece, and a cancel ends it early", async () => {
    let given = 0;
    const chunks = await chunksOf(at("lab/cut"));
    for (const { lines: some, cursor } of chunks.slice(0, 5)) {
      given += some.length;
      const rest = await readRows(at("lab/cut"), { resume: cursor ?? {} });
      expect([rest.length, rest[0]]).toEqual([60_000 - given, numbered(1, given)[0]]);
    }
    const stop = new AbortController();
    let read = 0;
    const reading = (async () => {
      for await (const { lines } of at("lab/cut").rows({ signal: stop.signal })) {
        read += lines.length;
        stop.abort(new Error("enough"));
      }
    })();
    expect(await reading.catch((error: Error) => error.message)).toBe("enough");
    expect(read).toBeLessThan(60_000);
  });
});

test(`${LARGE_ROWS} rows are read in flat memory`, async () => {
  const source = { source_type: "hf" as const, hub_dataset: "lab/large" };
  expectFlat(await readLarge({ source, credentials: {}, hubEndpoint: hub.url }));
}, 120_000);
