/** One file in or out, through addresses that the server signs: they may be of this server or of the storage itself. */
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { sha256File } from "../../platform/files.ts";
import type { DownloadUrl, UploadUrl, VolumeFile } from "../../resources/volumes/schema.ts";
import { ApiError, bytesOf, type Client, request } from "../client.ts";
import { streamOf } from "../transfer/form.ts";
import { type Meter, metered } from "../transfer/meter.ts";
import { withRetries } from "../transfer/retry.ts";
import { toFile, toOutput } from "../transfer/sink.ts";
import { isStream, openSource, type Source, type Stretch } from "../transfer/source.ts";
import { type Copy, pathOf } from "./plan.ts";

export type Moving = {
  client: Client;
  volume: string;
  meter: Meter;
  signal: AbortSignal;
  /** Above this a file goes in parts; default: what storages take at once. */
  wholeBytes?: number;
};

const WHOLE_BYTES = 4 * 1024 ** 3; // some storages take 5 GiB
const PARTS = 16;
const MOST_PART_BYTES = 1024 ** 3;

/** False: the same content is there already. */
export async function upload(moving: Moving, { from, to, size, known }: Copy): Promise<boolean> {
  const sha256 = await sha256File(from);
  moving.signal.throwIfAborted();
  if (sha256 === known) {
    moving.meter.pass(size);
    return false;
  }
  const source = await openSource(from);
  try {
    const file = await withRetries(moving.signal, () => sendOnce(moving, { source, to, sha256 }));
    if (file.sha256 !== sha256) throw new ApiError(`${to}: the server has sha256 ${file.sha256}, not ${sha256}`, 422);
    return true;
  } finally {
    await source.close();
  }
}

type Sending = { source: Source; to: string; sha256: string };

/** An address takes a file once, so each try asks for one. What fails is called off: it holds room. */
async function sendOnce(moving: Moving, { source, to, sha256 }: Sending): Promise<VolumeFile> {
  const { client, volume } = moving;
  const meter = moving.meter.part();
  const size = source.size ?? 0;
  const type = Bun.file(to).type; // by its name
  const parts = size > (moving.wholeBytes ?? WHOLE_BYTES) ? { parts: Math.ceil(size / partBytes(size)) } : {};
  const asked = { path: to, size_bytes: size, sha256, content_type: type, ...parts };
  const base = `/v1/volumes/${encodeURIComponent(volume)}`;
  const { body: address } = await client.call<UploadUrl>("POST", `${base}/upload-url`, asked);
  try {
    const answer = await putAll({ ...moving, meter }, source, address);
    if (address.complete_path === null) return (await answer?.json()) as VolumeFile;
    return (await client.call<VolumeFile>("POST", address.complete_path)).body;
  } catch (error) {
    meter.undo();
    await client.call("DELETE", `${base}/uploads/${address.id}`).catch(() => {}); // it expires by itself
    throw error;
  }
}

const partBytes = (size: number) => Math.min(MOST_PART_BYTES, Math.ceil(size / PARTS));

async function putAll(moving: Moving, source: Source, address: UploadUrl): Promise<Response | undefined> {
  const size = source.size ?? 0;
  const { url, headers, parts } = address;
  if (url !== null) return await put(moving, source, { url, headers }, { from: 0, to: size });
  const each = partBytes(size);
  for (const { number, ...part } of parts ?? []) {
    const stretch = { from: (number - 1) * each, to: Math.min(size, number * each) };
    await withRetries(moving.signal, () => put(moving, source, part, stretch));
  }
  return undefined;
}

type Address = { url: string; headers: Record<string, string> };

async function put(moving: Moving, source: Source, { url, headers }: Address, stretch: Stretch) {
  const { signal } = moving;
  const meter = moving.meter.part();
  const length = { "content-length": String(stretch.to - stretch.from) };
  const body = streamOf(metered(source.chunks(stretch), meter));
  try {
    return await request(url, { method: "PUT", headers: { ...headers, ...length }, body, signal, timeout: false });
  } catch (error) {
    meter.undo();
    throw error;
  }
}

/** Standard input has no length and no hash beforehand: it goes through the server. */
export async function uploadStream({ client, volume, meter, signal }: Moving, source: Source, to: string) {
  const raw = streamOf(metered(source.chunks(), meter));
  return (await client.call<VolumeFile>("PUT", pathOf(volume, to), undefined, { raw, signal })).body;
}

export async function download({ client, volume, meter, signal }: Moving, { from, to }: Copy): Promise<void> {
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
  await (to === "-" || isStream(to) ? once() : withRetries(signal, once)); // what was written cannot be taken back
}
