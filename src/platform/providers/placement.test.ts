import { expect, test } from "bun:test";
import { place } from "./placement.ts";
import type { Need, Offer } from "./types.ts";

const offer = (region: string, more: Partial<Offer> = {}): Offer => ({
  region,
  provider: region === "local" ? "local" : "ssh",
  gpuType: "H100",
  gpuCount: 1,
  memoryBytes: 80,
  rateMicros: 2_000_000,
  ...more,
});
const NEED: Need = { gpuCount: 1, memoryBytes: 10 };
const LAB = offer("reg_lab", { rateMicros: 1_000_000 });

test("the cheapest region that fits is taken, and the reason says so", () => {
  const offers = [offer("local"), LAB, offer("reg_big", { memoryBytes: 800, rateMicros: 9_000_000 })];
  expect(place(offers, NEED, {})).toEqual({
    offer: LAB,
    reason: "reg_lab is the cheapest of 3 regions that fit: 1.00 USD an hour",
  });
  expect(place(offers, { ...NEED, memoryBytes: 100 }, {})).toMatchObject({
    offer: { region: "reg_big" },
    reason: "reg_big is the only region that fits",
  });
});

test("this machine comes first among equal prices, and a region without a price comes last", () => {
  const unknown = offer("reg_new", { rateMicros: null });
  expect(place([LAB, offer("local", { rateMicros: 1_000_000 })], NEED, {}).offer?.region).toBe("local");
  expect(place([unknown, offer("local")], NEED, {})).toMatchObject({
    offer: { region: "local" },
    reason: "local is the cheapest of 2 regions that fit: 2.00 USD an hour",
  });
  expect(place([unknown, offer("local", { rateMicros: null })], NEED, {})).toMatchObject({
    offer: { region: "local" },
    reason: "local is the first of 2 regions that fit: none has a price",
  });
});

test("a region or a provider that the request names is taken, whatever it costs", () => {
  const dear = offer("reg_dear", { rateMicros: 9_000_000 });
  const offers = [offer("local"), LAB, dear];
  expect(place(offers, NEED, { region: "reg_dear" })).toEqual({
    offer: dear,
    reason: "The request names the region reg_dear",
  });
  expect(place(offers, NEED, { provider: "ssh" })).toEqual({
    offer: LAB,
    reason:
      "reg_lab is the cheapest of 2 regions of the provider ssh, which the request names, that fit: 1.00 USD an hour",
  });
});

test("what cannot be had is named with its parameter", () => {
  const offers = [offer("local"), LAB];
  expect(place(offers, NEED, { region: "reg_x" })).toMatchObject({
    param: "/region",
    message: "there is no region reg_x: use local, reg_lab",
  });
  expect(place(offers, NEED, { provider: "slurm" })).toMatchObject({
    param: "/provider",
    message: "no region of the provider slurm can be used: use local, ssh, or leave it out",
  });
  expect(place(offers, { ...NEED, gpuType: "A100" }, {})).toMatchObject({
    param: "/gpu",
    message: "no region that may be used has 1 of type A100 with 10 B of memory",
  });
  expect(place(offers, { gpuCount: 2, memoryBytes: 0 }, { region: "reg_lab" })).toMatchObject({ param: "/gpu" });
});
