import { describe, expect, test } from "bun:test";
import type { Credentials } from "../../src/lib/source.ts";
import { open } from "../../src/workers/connector/az.ts";
import { faultOf } from "./formats_kit.ts";
import { expectSilence, openSource } from "./objects_kit.ts";

describe("az", () => {
  test.each<[string, Credentials, string, string]>([
    ["az://account", {}, "/source_uri", "az://account/container/path"],
    ["az://account/UPPER/x", {}, "/source_uri", "A container name has lower-case letters"],
    ["az://ac-count/container/x", {}, "/source_uri", "the account name must have 3 to 24 lower-case letters"],
    ["az://account/container/x", { account_key: "MARKED not base64" }, "/credentials/account_key", "not base64"],
    ["az://account/container/x", { sas_token: "sv=MARKED" }, "/credentials/sas_token", "has no `sig`"],
  ])("%s %j is refused before any connection", async (source_uri, credentials, param, message) => {
    const source = { source_type: "az" as const, source_uri };
    const fault = await faultOf(Promise.resolve().then(() => openSource({ open, source, credentials })));
    expect([fault.code, fault.param]).toEqual(["invalid_source", param]);
    expect(fault.message).toContain(message);
    expectSilence(fault, ["MARKED"]);
  });
});
