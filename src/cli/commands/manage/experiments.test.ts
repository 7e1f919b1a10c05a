import { expect, test } from "bun:test";
import type { Client } from "../../client.ts";
import { mustFind } from "./experiments.ts";

const experiments = [
  { id: "exp_01k9aaaaaaaaaaaaaaaaaaaaaa", name: "sums" },
  { id: "exp_01k9bbbbbbbbbbbbbbbbbbbbbb", name: "twice" },
  { id: "exp_01k9cccccccccccccccccccccc", name: "twice" },
];
const client = {
  call: async () => ({ status: 200, body: { data: experiments, has_more: false }, headers: new Headers() }),
} as unknown as Client;

test("an experiment is found by a name that only one has; several of a name are rejected with their ids", async () => {
  expect(await mustFind(client, "sums")).toMatchObject(experiments[0]!);
  await expect(mustFind(client, "twice")).rejects.toThrow(
    '2 experiments are named "twice". Give one of their ids instead: exp_01k9bbbbbbbbbbbbbbbbbbbbbb, exp_01k9cccccccccccccccccccccc',
  );
  await expect(mustFind(client, "none")).rejects.toThrow('There is no experiment "none"');
});
