import { durable, write } from "../../../platform/db/db.ts";
import { resealAll } from "../../../platform/db/sealed.ts";
import { finishRotation, keyIdOf, nextMasterKey, oldNameOf } from "../../../platform/master_key.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, JSON_FLAG } from "../../args.ts";
import { count, note, print, printJson } from "../../output.ts";
import { settingsOf } from "../../settings.ts";

export const rotateMaster = command({
  summary: "Make a new master key and seal every secret under it; stop the server first",
  flags: { data: DATA_FLAG, config: CONFIG_FLAG, json: JSON_FLAG },
  examples: ["verk keys rotate-master"],
  exits: { 3: "a server uses the data directory: stop it first" },
  async run({ json, ...where }) {
    const { audited, DEFAULT_WORKSPACE, mustFindWorkspace, offline } = await import("../../offline.ts");
    const settings = settingsOf(where);
    const file = settings.secrets.master_key_file;
    const done = await offline(
      settings,
      async (ctx) => {
        const next = nextMasterKey(file);
        const sealed = write(ctx.db, (tx) => {
          audited(ctx, "verk keys rotate-master", mustFindWorkspace(ctx, DEFAULT_WORKSPACE).id);
          return resealAll(tx, (text) => ctx.secrets.rewrap(text, next));
        });
        await durable(ctx.db);
        finishRotation(file, keyIdOf(next));
        return { sealed, from: ctx.secrets.keyId, to: keyIdOf(next) };
      },
      { alone: true },
    );
    const old = oldNameOf(file, done.from);
    if (json) printJson({ object: "master_key", file, old_file: old, key_id: done.to, sealed: done.sealed });
    else {
      print(file);
      note(`${count(done.sealed, "secret")} sealed under the new master key ${done.to}. Make a backup now.`);
      note(`The old key is ${old}. Delete it when no backup without keys needs it.`);
      note("Signed addresses that were given out before no longer work, and known devices sign in anew.");
    }
    return EXIT.ok;
  },
});
