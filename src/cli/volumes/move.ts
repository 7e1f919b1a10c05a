/** Copies one file through signed addresses, which may point at the server or at its object storage. */
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { sha256File } from "../../platform/files.ts";
import type { DownloadUrl, UploadUrl, VolumeFile } from "../../resources/data/volumes/schema.ts";
import { ApiError, bytesOf, type Client, request } from "../client.ts";
import { streamOf } from "../transfer/form.ts";
import { type Meter, metered } from "../transfer/meter.ts";
import { withRetries } from "../transfer/retry.ts";
import { toFile, toOutput } from "../transfer/sink.ts";
import { isStream, openSource, type Source, type Stretch } from "../transfer/source.ts";
import { type Copy, pathOf } from "./plan.ts";

export type Transfer = {
  client: Client;
  volume: string;
  meter: Meter;
  signal: AbortSignal;
  /** Larger files are sent in parts (default: 4 GiB). */
  wholeBytes?: number;
};

const WHOLE_BYTES = 4 * 1024 ** 3; // some storages accept at most 5 GiB in one request
const PARTS = 16;
const MOST_PART_BYTES = 1024 ** 3;

/** Returns false if the volume has the same content already. */
export async function upload(transfer: Transfer, { from, to, size, existingSha256 }: Copy): Promise<boolean> {
  const sha256 = await sha256File(from);
  transfer.signal.throwIfAborted();
  if (sha256 === existingSha256) {
    transfer.meter.pass(size);
    return false;
  }
  const source = await openSource(from);
  try {
    const file = await withRetries(transfer.signal, () => sendOnce(transfer, { source, to, sha256 }));
    if (file.sha256 !== sha256)
      throw new ApiError(
        `${to}: the checksum on the server is wrong (sha256 ${file.sha256}, expected ${sha256}). Copy the file again.`,
        422,
      );
    return true;
  } finally {
    await source.close();
  }
}

type Sending = { source: Source; to: string; sha256: string };

/**
 * A signed address works once, so each attempt requests a new one. A failed upload is cancelled, because it reserves
 * space.
 */
async function sendOnce(transfer: Transfer, { source, to, sha256 }: Sending): Promise<VolumeFile> {
  const { client, volume } = transfer;
  const meter = transfer.meter.part();
  const size = source.size ?? 0;
  const type = Bun.file(to).type; // from the file name
  const parts = size > (transfer.wholeBytes ?? WHOLE_BYTES) ? { parts: Math.ceil(size / partBytes(size)) } : {};
  const fields = { path: to, size_bytes: size, sha256, content_type: type, ...parts };
  const base = `/v1/volumes/${encodeURIComponent(volume)}`;
  const { body: address } = await client.call<UploadUrl>("POST", `${base}/upload-url`, fields);
  try {
    const answer = await putAll({ ...transfer, meter }, source, address);
    if (address.complete_path === null) return (await answer?.json()) as VolumeFile;
    return (await client.call<VolumeFile>("POST", address.complete_path)).body;
  } catch (error) {
    meter.undo();
    await client.call("DELETE", `${base}/uploads/${address.id}`).catch(() => {}); // otherwise it expires
    throw error;
  }
}

const partBytes = (size: number) => Math.min(MOST_PART_BYTES, Math.ceil(size / PARTS));

async function putAll(transfer: Transfer, source: Source, address: UploadUrl): Promise<Response | undefined> {
  const size = source.size ?? 0;
  const { url, headers, parts } = address;
  if (url !== null) return await put(transfer, source, { url, headers }, { from: 0, to: size });
  const each = partBytes(size);
  for (const { number, ...part } of parts ?? []) {
    const stretch = { from: (number - 1) * each, to: Math.min(size, number * each) };
    await withRetries(transfer.signal, () => put(transfer, source, part, stretch));
  }
  return undefined;
}

type Address = { url: string; headers: Record<string, string> };

async function put(transfer: Transfer, source: Source, { url, headers }: Address, stretch: Stretch) {
  const { signal } = transfer;
  const meter = transfer.meter.part();
  const length = { "content-length": String(stretch.to - stretch.from) };
  const body = streamOf(metered(source.chunks(stretch), meter));
  try {
    return await request(url, { method: "PUT", headers: { ...headers, ...length }, body, signal, timeout: false });
  } catch (error) {
    meter.undo();
    throw error;
  }
}

/** Standard input has no known length or checksum, so it is sent through the server. */
export async function uploadStream({ client, volume, meter, signal }: Transfer, source: Source, to: string) {
  const raw = streamOf(metered(source.chunks(), meter));
  return (await client.call<VolumeFile>("PUT", pathOf(volume, to), undefined, { raw, signal })).body;
}

export async function download({ client, volume, meter, signal }: Transfer, { from, to }: Copy): Promise<void> {
  const path = `/v1/volumes/${encodeURIComponent(volume)}/download-url`;
  if (to !== "-") await mkdir(dirname(to), { recursive: true });
  const once = async () => {
    const part = meter.part();
    const { body } = await client.call<DownloadUrl>("POST", path, { path: from });
    const response = await request(body.url, { headers: body.headers, signal, timeout: false });
    try {
      await (to === "-" ? toOutput : toFile(to))(metered(bytesOf(response, signal), part), body.sha256);
    } catch (error) {
      part.undo();
      throw error;
    }
  };
  // Bytes written to a pipe cannot be taken back.
  await (to === "-" || isStream(to) ? once() : withRetries(signal, once));
}
