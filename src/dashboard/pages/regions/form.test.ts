import { expect, test } from "bun:test";
import { BLANK, checkBody, missingIn, regionBody } from "./form.ts";

const FULL = { ...BLANK, name: " lab ", address: "lab.example ", user: "ada", keyId: "ssh_1" };

test("the form says which field is missing, and what is sent is trimmed", () => {
  expect(missingIn(BLANK)).toBe("Give the region a name.");
  expect(missingIn({ ...FULL, address: " " })).toMatch(/address/);
  expect(missingIn({ ...FULL, keyId: "", publicKey: "p" })).toMatch(/key/);
  expect(missingIn(FULL)).toBeUndefined();
  const check = { kind: "ssh", address: "lab.example", port: 22, user: "ada", work_dir: "verk", ssh_key_id: "ssh_1" };
  expect(checkBody(FULL)).toEqual(check as ReturnType<typeof checkBody>);
  expect(regionBody({ ...FULL, rate: "2.5" }, "key")).toEqual({
    ...checkBody(FULL),
    name: "lab",
    host_key: "key",
    rate_usd_per_hour: 2.5,
  });
  const slurm = regionBody({ ...FULL, kind: "slurm", partition: "gpu" }, "key");
  expect(slurm).toMatchObject({ rate_usd_per_hour: null, slurm: { partition: "gpu", account: null, max_jobs: 8 } });
});
