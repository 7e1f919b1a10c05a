import { expect, test } from "bun:test";
import { chownSync, rmSync } from "node:fs";
import { startBinary } from "../binary.ts";
import { tempDir } from "../harness.ts";
import { asNobody, isRoot, NOBODY } from "../sandbox/nobody.ts";

/** A host that allows no user namespaces, for the server alone. */
const WITHOUT_NAMESPACES = [
  ...["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c"],
  'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --inh-caps=-all --ambient-caps=-all "$@"',
  "sh",
];

test("on a host without user namespaces, sessions are disabled with the reason and the fix", async () => {
  const dir = tempDir();
  if (isRoot) chownSync(dir, NOBODY, NOBODY);
  const server = await startBinary({ dir, prefix: asNobody(WITHOUT_NAMESPACES) });
  const call = (method: string, path: string, json?: unknown) => server.call(method, `/v1/sessions${path}`, json);
  const refused = await call("POST", "", {});
  expect({ status: refused.status, code: refused.body.error.code }).toEqual({
    status: 400,
    code: "sessions_disabled",
  });
  expect(refused.body.error.message).toContain("max_user_namespaces");
  expect((await call("GET", "")).status).toBe(200); // existing sessions can still be read
  expect((await call("GET", "/ses_00000000000000000000000000/files")).status).toBe(404);
  await server.kill("SIGTERM");
  rmSync(dir, { recursive: true, force: true });
});
