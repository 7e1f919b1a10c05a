// tier: all (decodes with emulated kernels)
import { afterAll, describe, expect, test } from "bun:test";
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openReader } from "../../src/native/shim/read.ts";
import { openDecoder } from "../../src/workers/decoder/decoder.ts";
import { PLAIN } from "../../src/workers/decoder/drawing.ts";
import { headerOf } from "../../src/workers/decoder/header.ts";
import { loadModel } from "../../src/workers/decoder/model.ts";
import type { Decoder } from "../../src/workers/decoder/types.ts";
import { PrefixFolder } from "../../src/workers/serving/engine/prefixes/folder.ts";
import { tempDir } from "../harness.ts";
import { makeAdapter, makeModel } from "../models.ts";
import { canCompute, openTestDevice } from "../native/emulation/choice.ts";
import { randomFor, sweep } from "../sweep.ts";

const HISTORIES = Number(process.env["VERK_TEST_HISTORIES"] ?? sweep({ quick: 40, full: 10_000 }));
const SIZE = { arch: "llama", type: "F16", layers: 2, width: 64, heads: 1, kvHeads: 1 } as const;
const KEYS = ["11".repeat(32), "22".repeat(32)] as const; // of two workspaces
const ANSWER = 2;
const PLACES = [0, 1, 2] as const; // no adapter, and two that are swapped

describe.skipIf(!canCompute)("our own decoder", () => {
  const device = openTestDevice();
  const models = tempDir();
  const path = makeModel(models, SIZE);
  const adapters = [1, 2].map((adapterSeed) => makeAdapter(models, { ...SIZE, strength: 3, adapterSeed }));
  const model = loadModel(device, { path, header: headerOf(path) }, 256);
  const opened = new Set<Decoder>();
  afterAll(() => {
    for (const decoder of opened) decoder.close();
    model.free();
  });

  function open(blocks: PrefixFolder | null) {
    const read = openReader(models);
    const options = { slots: 2, contextLength: 256, pages: 16, promptTokens: 128, ahead: true, blocks };
    const decoder = openDecoder(device, model, { ...options, adapters: { most: 4, read } });
    opened.add(decoder);
    const numbers = adapters.map((file) => {
      const load = decoder.attach([{ path: file, scale: 1, header: headerOf(file) }]);
      if (typeof load === "string") throw new Error(load);
      while (load.more());
      return load.adapter;
    });
    return { decoder, numbers: [undefined, ...numbers] };
  }

  const ways = [
    { what: "the decoding thread", threads: 0, histories: HISTORIES },
    { what: "other threads", threads: 2, histories: Math.max(30, Math.ceil(HISTORIES / 10)) }, // which start with every decoder
  ];
  test.each(ways)(
    "answers have the same bits with and without blocks by $what, whatever happens to these",
    (way) => {
      const random = randomFor(`block histories ${way.threads}`);
      const int = (most: number) => Math.floor(random() * most);
      const dirs = [tempDir(), tempDir()];
      const identity = (place: number) => `adapter ${place}`;
      const folders = () =>
        dirs.map((dir, i) => {
          const store = { dir, key: KEYS[i]!, identity: "model" };
          const folder = new PrefixFolder(store, () => {}, { threads: way.threads });
          folder.grant(1e9);
          return folder;
        });
      const blocksIn = (dir: string) => readdirSync(dir).filter((name) => name.length === 64);
      const namesFor = (folder: PrefixFolder, place: number, prompt: Int32Array) =>
        folder.names({ decoder: "own", adapter: identity(place) }, prompt, Math.floor((prompt.length - 1) / 64));

      const plain = open(null);
      const expected = new Map<string, string>();
      let [brought, asked, bad] = [0, 0, 0];
      let now = folders();
      let deciding = now.map((folder) => open(folder));
      const count = (folder: PrefixFolder) => {
        bad += folder.takeCounts()?.counts.bad_blocks ?? 0;
      };
      const end = (isKilled: boolean) => {
        for (const [i, { decoder }] of deciding.entries()) {
          if (!isKilled) while (decoder.keep());
          decoder.close();
          opened.delete(decoder);
          count(now[i]!);
        }
      };

      const acts: (() => void)[] = [
        () => {
          end(int(2) === 0); // parked, or killed with what is on the disk
          now = folders();
          deciding = now.map((folder) => open(folder));
        },
        () => {
          for (const dir of dirs) for (const name of blocksIn(dir)) if (int(4) === 0) rmSync(join(dir, name));
        },
        () => {
          for (const dir of dirs) for (const name of blocksIn(dir)) if (int(6) === 0) damage(join(dir, name), int);
        },
        () => {
          const [from, to] = int(2) === 0 ? [dirs[0]!, dirs[1]!] : [dirs[1]!, dirs[0]!]; // those of another workspace
          for (const name of blocksIn(from)) if (int(3) === 0) copyFileSync(join(from, name), join(to, name));
          const [one, other] = blocksIn(from);
          if (one && other) renameSync(join(from, one), join(from, other));
        },
        () => {
          for (const { decoder } of deciding) decoder.clear();
        },
        () => {
          const workspace = int(2);
          const prompt = promptOf(int(3), 66 + 9 * int(9));
          const { decoder } = deciding[workspace]!;
          const blocks = namesFor(now[workspace]!, 0, prompt);
          const id = decoder.admit({ prompt, maxTokens: 1, drawing: { ...PLAIN }, blocks })!;
          if (int(2) === 0) decoder.step(1);
          decoder.release(id); // its blocks may be on their way
        },
      ];

      for (let i = 0; i < way.histories; i++) {
        const act = acts[int(12)];
        act?.();
        const workspace = int(2);
        const place = PLACES[int(PLACES.length)]!;
        const prompt = promptOf(int(3), 66 + 9 * int(9));
        const key = `${place} ${prompt.join()}`;
        if (!expected.has(key)) {
          expected.set(key, answer(plain.decoder, prompt, plain.numbers[place], []));
          plain.decoder.clear();
        }
        const { decoder, numbers } = deciding[workspace]!;
        const before = decoder.stats().cachedTokens;
        const blocks = namesFor(now[workspace]!, place, prompt);
        expect(answer(decoder, prompt, numbers[place], blocks)).toBe(expected.get(key)!);
        brought += decoder.stats().cachedTokens - before;
        asked += prompt.length;
        if (int(3) > 0) while (decoder.keep());
      }
      end(true);
      expect(brought / asked).toBeGreaterThan(0.1);
      if (way.histories > 500) expect(bad).toBeGreaterThan(way.histories / 100);
    },
    36_000_000,
  );

  test("what a first token needs is made while nothing runs, and changes no answer", () => {
    const [{ decoder }, other] = [open(null), open(null)];
    const prompt = promptOf(1, 100);
    const id = decoder.admit({ prompt, maxTokens: 1, drawing: { ...PLAIN } })!;
    expect(decoder.prepare()).toBe(false); // a sequence is there
    decoder.release(id);
    let parts = 0;
    while (decoder.prepare()) parts++;
    expect(parts).toBeGreaterThan(0);
    expect(answer(decoder, prompt, undefined, [])).toBe(answer(other.decoder, prompt, undefined, []));
  });

  /** The bits of an answer as text. Some stop in the middle for another one. */
  function answer(
    decoder: Decoder,
    prompt: Int32Array,
    adapter: number | undefined,
    blocks: readonly string[],
  ): string {
    const drawing = { ...PLAIN, seed: prompt.length, topLogprobs: 0 };
    const id = decoder.admit({ prompt, maxTokens: ANSWER, drawing, adapter, blocks })!;
    const said: string[] = [];
    while (said.length < ANSWER) {
      for (const { token, logp } of decoder.step()) said.push(`${token}:${logp}`);
      if (said.length === 1 && blocks.length > 0 && decoder.pause(id)) decoder.resume(id);
    }
    decoder.release(id);
    return said.join(" ");
  }

  const promptOf = (seed: number, length: number) =>
    Int32Array.from({ length }, (_, i) => 40 + ((seed * 31 + i * 17 + i * i) % 50));
});

function damage(path: string, int: (most: number) => number) {
  const bytes = readFileSync(path);
  if (int(2) === 0) return truncateSync(path, int(bytes.length));
  bytes[int(bytes.length)]! ^= 1 << int(8);
  writeFileSync(path, bytes);
}
