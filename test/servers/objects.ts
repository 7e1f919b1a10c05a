import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { give, INSTALLED, launch, mustFind, packages, readable, scratch, unprivileged } from "./process.ts";
import type { BlobServer, S3Server } from "./servers.ts";

const EMULATOR = "usr/bin/qemu-x86_64";

/**
 * MinIO's package has an x86_64 program only. On aarch64 QEMU runs the same program, much slower. Go needs
 * addresses below 2^47, which the old layout of memory gives.
 */
function emulator(dir: string): string[] {
  if (process.arch === "x64") return [];
  const qemu = mustFind("minio", [join(INSTALLED, "qemu", EMULATOR), join("/", EMULATOR)]);
  return ["setarch", "--addr-compat-layout", readable(qemu, dir)];
}

export async function startMinio(): Promise<S3Server> {
  const program = mustFind("minio", [packages("@dragon-den/install-minio/target/bin/minio")]);
  const dir = scratch("minio");
  const buckets = join(dir, "buckets");
  mkdirSync(buckets);
  give(buckets);
  const login = { accessKeyId: "verk-test", secretAccessKey: "minio s3cret/+key" };
  const minio = [...emulator(dir), readable(program, dir)];
  const port = await launch({
    dir,
    signal: "SIGKILL",
    argv: (port) => unprivileged([...minio, "server", "--quiet", `--address=127.0.0.1:${port}`, buckets]),
    env: {
      HOME: dir,
      MINIO_ROOT_USER: login.accessKeyId,
      MINIO_ROOT_PASSWORD: login.secretAccessKey,
      MINIO_BROWSER: "off",
      MINIO_UPDATE: "off", // it would ask its maker for a newer version
      MINIO_SCANNER_SPEED: "slowest", // else it walks all objects every minute
      QEMU_TB_SIZE: "1024", // MiB of translated code; where a cache line counts as a page, 128 are too few
    },
    ready: async (port) => (await fetch(`http://127.0.0.1:${port}/minio/health/ready`)).ok,
  });
  return { url: `http://127.0.0.1:${port}`, region: "us-east-1", ...login };
}

/** The public account from Azurite's documentation. */
const AZURITE = {
  account: "devstoreaccount1",
  key: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
};

export async function startAzurite(): Promise<BlobServer> {
  const program = mustFind("azurite", [packages("azurite/dist/src/blob/main.js")]);
  const dir = scratch("azurite");
  const quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"];
  const port = await launch({
    dir,
    signal: "SIGKILL",
    argv: (port) => [nodeOrBun(), program, "--blobHost", "127.0.0.1", "--blobPort", `${port}`, ...quiet],
    ready: async (port) => (await fetch(`http://127.0.0.1:${port}/${AZURITE.account}?comp=list`)).status === 403,
  });
  return { url: `http://127.0.0.1:${port}/${AZURITE.account}`, ...AZURITE };
}

/** These servers were written for node; it is there wherever bun was installed with npm. */
export const nodeOrBun = () => Bun.which("node") ?? process.execPath;
