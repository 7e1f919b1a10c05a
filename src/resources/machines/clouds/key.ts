/** The SSH key of this server for the machines of its clouds. The file is of the server's user alone. */
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { syncDirSync } from "../../../platform/files.ts";
import { leasesDir } from "../../../platform/providers/leases.ts";

export const publicKeyFile = (dataDir: string) => join(leasesDir(dataDir), "ssh_key.pub");
const privateKeyFile = (dataDir: string) => join(leasesDir(dataDir), "ssh_key");

/** Makes the pair if there is none. The private half gets its name last, so a kill leaves no half of a pair. */
export async function keepKey(dataDir: string): Promise<void> {
  if (existsSync(privateKeyFile(dataDir))) return;
  const dir = leasesDir(dataDir);
  const temp = mkdtempSync(join(dir, ".key-"));
  try {
    const made = join(temp, "key");
    const argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "verk", "-f", made];
    const child = Bun.spawn(argv, { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    if ((await child.exited) !== 0) throw new Error(`ssh-keygen failed: ${await new Response(child.stderr).text()}`);
    renameSync(`${made}.pub`, publicKeyFile(dataDir));
    renameSync(made, privateKeyFile(dataDir));
    syncDirSync(dir);
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

export const publicKey = (dataDir: string) => readFileSync(publicKeyFile(dataDir), "utf8").trim();
export const privateKey = (dataDir: string) => readFileSync(privateKeyFile(dataDir), "utf8");
