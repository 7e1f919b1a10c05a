// tier: all (real databases and stores)
import { expect, test } from "bun:test";
import type { Credentials } from "../../src/lib/source.ts";
import { splitSecrets } from "../../src/lib/source.ts";
import { open } from "../../src/workers/connector/az.ts";
import { azurite, describeWith, judge } from "../servers/servers.ts";
import { faultOf } from "./formats_kit.ts";
import { objectStoreTests } from "./object_store_suite.ts";
import { calm, expectSilence, openSource, readRows } from "./objects_kit.ts";

const container = "verk-rows";

/** The server, and Microsoft's client, which writes the test data. */
const started = async () => {
  const server = await azurite();
  const { BlobServiceClient, StorageSharedKeyCredential, ...sas } = await judge("@azure/storage-blob");
  const shared = new StorageSharedKeyCredential(server.account, server.key);
  const service = new BlobServiceClient(server.url, shared);
  return { server, service, shared, sas, blobs: service.getContainerClient(container) };
};

describeWith("az, against Azurite", started, ({ server, service, shared, sas, blobs }) => {
  const created = blobs.create();
  const put = async (key: string, content: string | Uint8Array) => {
    await created;
    const bytes = Buffer.from(content as string);
    await blobs.getBlockBlobClient(key).upload(bytes, bytes.byteLength);
  };
  const port = Number(new URL(server.url).port);
  const endpoint = (through = port) => `?endpoint=http://127.0.0.1:${through}/${server.account}`;
  const uri = (path: string, through?: number) => `az://${server.account}/${container}/${path}${endpoint(through)}`;
  const at = (source_uri: string, credentials: Credentials) =>
    openSource({ open, source: { source_type: "az", source_uri }, credentials });
  const credentials = { account_name: server.account, account_key: server.key };

  objectStoreTests({
    type: "az",
    open,
    put,
    uri,
    nowhere: `az://${server.account}/no-such-container/x.jsonl${endpoint()}`,
    port,
    credentials,
    wrong: { account_key: Buffer.from("MARKED-wrong-key").toString("base64") },
    secrets: [server.key],
  });

  const signed = (permissions: string, startsOn = new Date(Date.now() - 60_000)): string =>
    sas
      .generateBlobSASQueryParameters(
        {
          containerName: container,
          permissions: sas.ContainerSASPermissions.parse(permissions),
          startsOn,
          expiresOn: new Date(startsOn.getTime() + 600_000),
        },
        shared,
      )
      .toString();

  test("a shared access signature is enough, as a credential or as part of the address", async () => {
    await put("sas/rows.jsonl", '{"a":1}\n');
    const token = signed("rl");
    expect(await readRows(at(uri("sas/"), { sas_token: token }))).toEqual(['{"a":1}']);
    expect(await readRows(at(uri("sas/rows.jsonl"), { sas_token: `?${token}` }))).toEqual(['{"a":1}']);
    const given = { source_type: "az" as const, source_uri: `${uri("sas/rows.jsonl")}&${token}` };
    const split = splitSecrets(given);
    expect(split.source.source_uri).not.toContain("sig");
    expect(await readRows(openSource({ open, ...split }))).toEqual(['{"a":1}']);
  });

  test("a signature that may read but not list reads one blob; an expired one is refused and not repeated", async () => {
    await put("sas/rows.jsonl", '{"a":1}\n');
    expect(await readRows(at(uri("sas/rows.jsonl"), { sas_token: signed("r") }))).toEqual(['{"a":1}']);
    const over = signed("rl", new Date(Date.now() - 3_600_000));
    const sig = new URLSearchParams(over).get("sig") ?? "";
    for (const [token, where] of [
      [signed("r"), "sas/"],
      [over, "sas/rows.jsonl"],
    ] as const) {
      const fault = await faultOf(at(uri(where), { sas_token: token }).test(calm()));
      expect(fault.code).toBe("unauthorized");
      expectSilence(fault, [new URLSearchParams(token).get("sig") ?? "", sig]);
    }
    const down = await faultOf(at(uri("sas/", 2), { sas_token: over }).test(calm()));
    expect(down.code).toBe("unreachable");
    expectSilence(down, [sig]);
  });

  test("public objects are read without credentials", async () => {
    const open_ = service.getContainerClient("verk-public");
    await open_.create({ access: "container" });
    await open_.getBlockBlobClient("rows.jsonl").upload('{"a":1}', 7);
    const where = `az://${server.account}/verk-public/${endpoint()}`;
    expect(await readRows(at(where, {}))).toEqual(['{"a":1}']);
    expect((await faultOf(at(uri("sas/rows.jsonl"), {}).test(calm()))).code).toMatch(/unauthorized|not_found/);
  });
});
