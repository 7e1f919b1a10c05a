/** dpkg itself installs and removes the package, on a copy of this system's files that is discarded afterwards. */
import { expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageWorld, run } from "../../test/packages_kit.ts";
import { debName, writeDeb } from "./deb.ts";

const MOUNT = `set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/system"
`;
const INSTALL = `${MOUNT}
cat <"$2" >"$1/system/verk.deb"
exec chroot "$1/system" sh -c '
  dpkg --no-triggers -i /verk.deb >/dev/null
  id -un verk
  stat -c "%U %G %a %n" /var/lib/verk /etc/verk/config.toml
  test -L /etc/systemd/system/multi-user.target.wants/verk.service && echo enabled
  dpkg -V verk
  touch /var/lib/verk/model
  dpkg --no-triggers -r verk >/dev/null
  ls /usr/bin/verk /etc/verk/config.toml
  dpkg --no-triggers -P verk | tail -n 1
  ls /etc/verk /var/lib/verk
'
`;

const canMount = () => {
  if (process.getuid?.() !== 0 || ["dpkg", "unshare", "chroot"].some((name) => Bun.which(name) === null)) return false;
  const { dir } = packageWorld();
  writeFileSync(join(dir, "mount.sh"), MOUNT);
  const { code } = run(["unshare", "-m", "sh", join(dir, "mount.sh"), dir]);
  rmSync(dir, { recursive: true, force: true });
  return code === 0;
};

test.skipIf(!canMount())("dpkg installs the package, removes it and purges it; the data stays", async () => {
  const { dir, release } = packageWorld();
  const target = packageWorld().dir;
  const file = join(dir, debName(release));
  writeFileSync(file, await writeDeb(release));
  writeFileSync(join(dir, "install.sh"), INSTALL);
  const { out } = run(["unshare", "-m", "sh", join(dir, "install.sh"), target, file]);
  expect(out.trim().split("\n")).toEqual([
    "verk",
    "verk verk 700 /var/lib/verk",
    "root verk 640 /etc/verk/config.toml",
    "enabled",
    "/etc/verk/config.toml",
    "Kept the data directory /var/lib/verk and the user verk.",
    "/var/lib/verk:",
    "model",
  ]);
  for (const each of [dir, target]) rmSync(each, { recursive: true, force: true });
});
