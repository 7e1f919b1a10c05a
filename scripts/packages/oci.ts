/**
 * An image for containers: an OCI layout in one tar file. Its only layer has the executable and the C library that the
 * executable is linked with. There is no shell and no package manager.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { tarEnd, tarEntry, tarHeader } from "../../src/lib/archive/tar_write.ts";
import { findRuntime } from "../bundle/natives.ts";
import { foldersOf, PAYLOAD_LEVEL, packed, type Release, SUMMARY } from "./contents.ts";

/** A number without a name on the host, as other images without root use it. */
const USER = 65532;
const DATA = "/var/lib/verk";
const LIBRARIES = ["libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "libresolv.so.2", "librt.so.1"];

type Blob = { digest: string; content: Uint8Array };
type Descriptor = { mediaType: string; digest: string; size: number };

export const ociName = ({ version, platform }: Release) => `verk-${version}-${platform.name}.oci.tar`;

const digestOf = (content: Uint8Array) => `sha256:${createHash("sha256").update(content).digest("hex")}`;
const blob = (content: Uint8Array): Blob => ({ digest: digestOf(content), content });
const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const descriptor = (kind: string, { digest, content }: Blob): Descriptor => ({
  mediaType: `application/vnd.oci.image.${kind}`,
  digest,
  size: content.byteLength,
});

export function writeOci(release: Release): Uint8Array {
  const archive = layerOf(release);
  const layer = blob(packed(archive, PAYLOAD_LEVEL));
  const config = blob(json(configOf(release, digestOf(archive))));
  const manifest = blob(
    json({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      config: descriptor("config.v1+json", config),
      layers: [descriptor("layer.v1.tar+gzip", layer)],
    }),
  );
  const index = {
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.index.v1+json",
    manifests: [
      {
        ...descriptor("manifest.v1+json", manifest),
        platform: { architecture: release.platform.debian, os: "linux" },
        annotations: { "org.opencontainers.image.ref.name": `verk:${release.version}` },
      },
    ],
  };
  const stamp = { seconds: release.seconds };
  const folders = ["blobs/", "blobs/sha256/"].map((name) => tarHeader(name, 0, "5", 0o755, stamp));
  const blobs = [layer, config, manifest].sort((a, b) => (a.digest < b.digest ? -1 : 1));
  return Buffer.concat([
    ...tarEntry("oci-layout", json({ imageLayoutVersion: "1.0.0" }), 0o644, stamp),
    ...tarEntry("index.json", json(index), 0o644, stamp),
    ...folders,
    ...blobs.flatMap(({ digest, content }) => [
      ...tarEntry(`blobs/${digest.replace(":", "/")}`, content, 0o644, stamp),
    ]),
    tarEnd(),
  ]);
}

function layerOf({ executable, platform, seconds }: Release): Uint8Array {
  const passwd = `root:x:0:0:root:/root:/sbin/nologin\nverk:x:${USER}:${USER}:verk:${DATA}:/sbin/nologin\n`;
  const loader = platform.loader.split("/").at(-1) ?? "";
  const files = [
    { path: "/usr/bin/verk", content: readFileSync(executable), mode: 0o755 },
    { path: platform.loader, content: readFileSync(findRuntime(loader, platform)), mode: 0o755 },
    ...LIBRARIES.map((name) => ({
      path: `/lib/${platform.multiarch}/${name}`,
      content: readFileSync(findRuntime(name, platform)),
      mode: 0o644,
    })),
    { path: "/etc/passwd", content: new TextEncoder().encode(passwd), mode: 0o644 },
  ];
  const stamp = { seconds };
  const folder = (path: string, mode = 0o755, owner = 0) =>
    tarHeader(`${path.slice(1)}/`, 0, "5", mode, { seconds, owner });
  return Buffer.concat([
    ...foldersOf([...files, { path: DATA }]).map((path) => folder(path)),
    folder(DATA, 0o700, USER),
    folder("/tmp", 0o1777),
    ...files.flatMap(({ path, content, mode }) => [...tarEntry(path.slice(1), content, mode, stamp)]),
    tarEnd(),
  ]);
}

const configOf = ({ platform, version, seconds }: Release, layer: string) => ({
  created: new Date(seconds * 1000).toISOString(),
  architecture: platform.debian,
  os: "linux",
  config: {
    User: `${USER}:${USER}`,
    ExposedPorts: { "7070/tcp": {} },
    // a container has an address of its own: on loopback nothing could reach the server
    Env: ["PATH=/usr/bin", `VERK_DATA=${DATA}`, "VERK_HTTP__LISTEN=0.0.0.0:7070", `HOME=${DATA}`],
    Entrypoint: ["/usr/bin/verk"],
    Cmd: ["serve"],
    Volumes: { [DATA]: {} },
    WorkingDir: DATA,
    Labels: {
      "org.opencontainers.image.title": "verk",
      "org.opencontainers.image.description": SUMMARY,
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.licenses": "Apache-2.0",
    },
  },
  rootfs: { type: "layers", diff_ids: [layer] },
  history: [{ created: new Date(seconds * 1000).toISOString(), created_by: "scripts/build --packages" }],
});
