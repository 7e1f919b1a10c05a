// tier: all (a server from npm in the jail of a session)
/** An agent with `server-memory` from npm as a program in a jail. Its memory is a volume, so the next chat has it. */
import { afterEach, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { manyApps } from "../harness.ts";
import { chat, createAgent, scriptedModel } from "./agents_kit.ts";
import { packages } from "./servers.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);
beforeAll(packages.install, 300_000);

/** A session sees programs below /usr alone. */
const hasNode = existsSync("/usr/bin/node");

test.skipIf(!hasNode)(
  "an agent keeps its memory from one chat to the next",
  async () => {
    const app = open();
    const built = await Bun.build({
      entrypoints: [packages.installed("@modelcontextprotocol/server-memory/dist/index.js")],
      target: "node",
    });
    await app.call("POST", "/v1/volumes", { name: "program" });
    await app.call("POST", "/v1/volumes", { name: "memory" });
    const raw = await (built.outputs[0] as Blob).text();
    expect((await app.call("PUT", "/v1/volumes/program/files/server.mjs", undefined, { raw })).status).toBeLessThan(
      300,
    );
    await scriptedModel(app, [
      {
        calls: [
          ["create_entities", { entities: [{ name: "Ada", entityType: "person", observations: ["likes rain"] }] }],
        ],
      },
      "Noted.",
      { calls: [["search_nodes", { query: "Ada" }]] },
      "Ada likes rain.",
    ]);
    const server = {
      type: "mcp",
      server_label: "memory",
      command: "/usr/bin/node",
      args: ["/data/program/server.mjs"],
      env: { MEMORY_FILE_PATH: "/workspace/memory/graph.jsonl" },
      volumes: [
        { name: "program", mount_path: "/data/program" },
        { name: "memory", mount_path: "/workspace/memory", read_only: false },
      ],
      allowed_tools: ["create_entities", "search_nodes"],
      require_approval: "never",
    };
    await createAgent(app, [server]);
    const outputs: string[] = [];
    for (let i = 0; i < 2; i++) {
      const { body } = await chat(app);
      outputs.push(body.choices[0].message.executed_tools[0].output);
    }
    expect(outputs[1]).toContain("likes rain");
    const { data } = (await app.call("GET", "/v1/sessions")).body;
    expect(data.map(({ status }: { status: string }) => status)).toEqual(["stopped", "stopped"]);
  },
  240_000,
);
