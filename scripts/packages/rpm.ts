/** A package of RPM 4: a lead, the signature header with digests, the main header, and a compressed cpio archive. */
import { createHash } from "node:crypto";
import {
  DESCRIPTION,
  PAYLOAD_LEVEL,
  type PackedFile,
  packageFiles,
  packed,
  type Release,
  SUMMARY,
} from "./contents.ts";
import { cpio } from "./cpio.ts";
import { packageVersion } from "./debian_texts.ts";
import { fileTags, rpmEntries } from "./rpm_files.ts";
import { bytes, int32, REGION, rpmHeader, string, strings, type Tags, translated } from "./rpm_header.ts";
import { RPM_SCRIPTS } from "./scripts.ts";

const RELEASE = "1";
const SHELL = "/bin/sh";
const SHA256 = 8;
const SENSE = { less: 2, equal: 8, interpreter: 1 << 8, pre: 1 << 9, post: 1 << 10, preun: 1 << 11, postun: 1 << 12 };
const FROM_RPM = 1 << 24;
const ARCHITECTURE_CODES: Readonly<Record<string, number>> = { x64: 1, arm64: 19 };

export const rpmName = ({ version, platform }: Release) =>
  `verk-${packageVersion(version)}-${RELEASE}.${platform.machine}.rpm`;

const digest = (name: string, ...parts: Uint8Array[]) => {
  const hash = createHash(name);
  for (const part of parts) hash.update(part);
  return hash.digest();
};

export async function writeRpm(release: Release): Promise<Uint8Array> {
  const files = await packageFiles(release, "rpm");
  const archive = cpio(rpmEntries(files, release.seconds));
  const payload = packed(archive, PAYLOAD_LEVEL);
  const header = rpmHeader(mainTags(release, files, payload), REGION.main);
  const signature = rpmHeader(
    new Map([
      [269, string(digest("sha1", header).toString("hex"))],
      [273, string(digest("sha256", header).toString("hex"))],
      [1000, int32(header.byteLength + payload.byteLength)],
      [1004, bytes(digest("md5", header, payload))],
      [1007, int32(archive.byteLength)],
    ]),
    REGION.signature,
  );
  const gap = new Uint8Array((8 - (signature.byteLength % 8)) % 8);
  return Buffer.concat([lead(release), signature, gap, header, payload]);
}

/** Obsolete, but `file` and old programs read it. */
function lead(release: Release): Uint8Array {
  const out = Buffer.alloc(96);
  out.set([0xed, 0xab, 0xee, 0xdb, 3, 0]);
  out.writeUInt16BE(ARCHITECTURE_CODES[release.platform.arch] ?? 0, 8);
  out.write(
    rpmName(release)
      .replace(/\.[^.]+\.rpm$/, "")
      .slice(0, 65),
    10,
  );
  out.writeUInt16BE(1, 76); // Linux
  out.writeUInt16BE(5, 78); // a signature header follows
  return out;
}

type Need = { name: string; flags: number; version: string };

const needs = (): Need[] =>
  [
    { name: SHELL, flags: SENSE.interpreter | SENSE.pre | SENSE.post | SENSE.preun | SENSE.postun, version: "" },
    { name: "/usr/sbin/useradd", flags: SENSE.pre, version: "" },
    { name: "libc.so.6(GLIBC_2.34)(64bit)", flags: 0, version: "" },
    ...[
      ["rpmlib(CompressedFileNames)", "3.0.4-1"],
      ["rpmlib(FileDigests)", "4.6.0-1"],
      ["rpmlib(PayloadFilesHavePrefix)", "4.0-1"],
    ].map(([name = "", version = ""]) => ({ name, flags: SENSE.less | SENSE.equal | FROM_RPM, version })),
  ].sort((a, b) => (a.name < b.name ? -1 : 1));

function mainTags(release: Release, files: readonly PackedFile[], payload: Uint8Array): Tags {
  const { platform, seconds, maintainer } = release;
  const version = packageVersion(release.version);
  const full = `${version}-${RELEASE}`;
  const required = needs();
  return new Map([
    [100, strings(["C"])],
    [1000, string("verk")],
    [1001, string(version)],
    [1002, string(RELEASE)],
    [1004, translated(SUMMARY)],
    [1005, translated(DESCRIPTION.join("\n"))],
    [1006, int32(seconds)],
    [1007, string("localhost")], // the name of the machine would make two builds differ
    [1014, string("Apache-2.0")],
    [1015, string(maintainer)],
    [1016, translated("Unspecified")],
    [1021, string("linux")],
    [1022, string(platform.machine)],
    [1023, string(RPM_SCRIPTS.pre)],
    [1024, string(RPM_SCRIPTS.post)],
    [1025, string(RPM_SCRIPTS.preun)],
    [1026, string(RPM_SCRIPTS.postun)],
    [1044, string(`verk-${full}.src.rpm`)],
    [1047, strings(["verk", `verk(${platform.machine.replace("_", "-")})`])],
    [1048, int32(...required.map(({ flags }) => flags))],
    [1049, strings(required.map(({ name }) => name))],
    [1050, strings(required.map((need) => need.version))],
    [1064, string("4.18.0")],
    [1080, int32(seconds)],
    [1081, strings([`${maintainer} - ${full}`])],
    [1082, strings([`- Release ${release.version}. The changes are listed in CHANGELOG.md.`])],
    ...[1085, 1086, 1087, 1088].map((tag) => [tag, string(SHELL)] as const),
    [1112, int32(SENSE.equal, SENSE.equal)],
    [1113, strings([full, full])],
    [1124, string("cpio")],
    [1125, string("gzip")],
    [1126, string(String(PAYLOAD_LEVEL))],
    [5062, string("utf-8")],
    [5092, strings([digest("sha256", payload).toString("hex")])],
    [5093, int32(SHA256)],
    ...fileTags(files, seconds),
  ]);
}
