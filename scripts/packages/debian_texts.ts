/** The texts that Debian's policy asks for: control, copyright, changelog. */
import { DESCRIPTION, type Release, SUMMARY } from "./contents.ts";

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `0.2.0-rc.1` is before `0.2.0`. Debian and RPM write that with a tilde. */
export const packageVersion = (version: string) => version.replaceAll("-", "~");

/** RFC 5322, as a changelog of Debian has it. */
export function changelogDate(seconds: number): string {
  const at = new Date(seconds * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${DAYS[at.getUTCDay()]}, ${two(at.getUTCDate())} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}`;
  return `${day} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())} +0000`;
}

export const control = (release: Release, installedBytes: number) => `Package: verk
Version: ${packageVersion(release.version)}
Architecture: ${release.platform.debian}
Maintainer: ${release.maintainer}
Installed-Size: ${Math.ceil(installedBytes / 1024)}
Depends: libc6 (>= 2.34), passwd
Section: science
Priority: optional
Description: ${SUMMARY}
${DESCRIPTION.map((line) => ` ${line}\n`).join("")}`;

export const debianChangelog = ({ version, maintainer, seconds }: Release) =>
  `verk (${packageVersion(version)}) unstable; urgency=medium

  * Release ${version}. The changes are listed in CHANGELOG.md of the source.

 -- ${maintainer}  ${changelogDate(seconds)}
`;

export const copyright = ({
  seconds,
  maintainer,
}: Release) => `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: verk
Comment: The executable also contains libraries under licenses of their own. The
 list of components (CycloneDX) that the build writes names each one. The
 command "verk licenses" prints their texts. The notice for weights of others
 is in /usr/share/doc/verk/NOTICE.

Files: *
Copyright: ${new Date(seconds * 1000).getUTCFullYear()} ${maintainer}
License: Apache-2.0

License: Apache-2.0
 On Debian systems, the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
`;

/**
 * The executable is a runtime with its program behind it: stripping it would remove the program, and its libraries are
 * inside on purpose. The settings may hold secrets, so only root and the service read them.
 */
export const lintianOverrides = `verk: embedded-library
verk: unstripped-binary-or-object
verk: hardening-no-pie
verk: hardening-no-bindnow
verk: hardening-no-relro
verk: non-standard-file-perm 0640 != 0644 [etc/verk/config.toml]
`;
