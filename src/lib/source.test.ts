import { expect, test } from "bun:test";
import { type Source, splitSecrets } from "./source.ts";

const postgres = (db_connection: Source["db_connection"]): Source => ({
  source_type: "postgres",
  db_connection,
  db_query: "SELECT 1",
});

test("a password moves to the credentials, also one with a % that begins no escape", () => {
  for (const [written, meant] of [
    ["hunter22", "hunter22"],
    ["a%40b", "a@b"],
    ["50%off", "50%off"],
  ] as const) {
    const { source, credentials } = splitSecrets(postgres(`postgres://u:${written}@db.lab/x?sslmode=require`));
    expect(source.db_connection).toBe("postgres://u@db.lab/x?sslmode=require");
    expect(credentials).toEqual({ password: meant });
  }
});

test("what follows the # of an address is nothing a database knows, and is not kept", () => {
  const { source } = splitSecrets(postgres("postgres://u@db.lab/x#password=hunter22"));
  expect(source.db_connection).toBe("postgres://u@db.lab/x");
});

test("the signature of an address is a credential; the endpoint beside it stays where it was", () => {
  const endpoint = "http://azurite.lab:10000/lab";
  const { source, credentials } = splitSecrets({
    source_type: "az",
    source_uri: `az://lab/rows/a.jsonl?endpoint=${endpoint}&sv=2024-11-04&sp=rl&sig=a%2Bb%3D`,
  });
  expect(source.source_uri).toBe(`az://lab/rows/a.jsonl?endpoint=${encodeURIComponent(endpoint)}`);
  expect(credentials).toEqual({ sas_token: "sv=2024-11-04&sp=rl&sig=a%2Bb%3D" });
});

test("a field that this type of source does not read is not kept: nobody looked for secrets in it", () => {
  const all = {
    source_uri: "s3://bucket/rows.jsonl",
    hub_dataset: "lab/rows",
    db_connection: "host=db.lab password=hunter22",
    db_query: "SELECT 'hunter22'",
  };
  const kept = (source_type: Source["source_type"]) => splitSecrets({ source_type, ...all }).source;
  expect(kept("s3")).toEqual({ source_type: "s3", source_uri: all.source_uri });
  expect(kept("hf")).toEqual({ source_type: "hf", hub_dataset: all.hub_dataset });
  const { source_uri, hub_dataset, ...database } = all;
  expect(kept("mysql")).toEqual({ source_type: "mysql", ...database });
});
