/** The scripts that run while a package is installed or removed. They do what install.sh does. */

/** Creates the user and the data directory. Every line may run again. */
const MAKE_USER = `if ! getent passwd verk >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/verk --no-create-home --shell /usr/sbin/nologin verk
fi
# GPU device files belong to these groups on most systems.
for group in video render; do
  if getent group "$group" >/dev/null; then usermod -aG "$group" verk; fi
done
`;
const MAKE_DATA = "install -d -m 0700 -o verk -g verk /var/lib/verk\n";

const debian = (body: string) => `#!/bin/sh
set -e

${body}
exit 0
`;

/** `deb-systemd-helper` remembers that an administrator has disabled the service, and does not enable it again. */
export const DEBIAN_SCRIPTS = {
  postinst: debian(`if [ "$1" = configure ]; then
${indented(MAKE_USER + MAKE_DATA)}
  chown root:verk /etc/verk/config.toml
  deb-systemd-helper unmask verk.service >/dev/null || true
  if deb-systemd-helper --quiet was-enabled verk.service; then
    deb-systemd-helper enable verk.service >/dev/null || true
  else
    deb-systemd-helper update-state verk.service >/dev/null || true
  fi
  if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
    deb-systemd-invoke restart verk.service >/dev/null || true
  fi
fi
`),
  prerm: debian(`if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  deb-systemd-invoke stop verk.service >/dev/null || true
fi
`),
  // the data directory stays even after a purge: it holds trained models
  postrm: debian(`if [ "$1" = remove ]; then
  if command -v deb-systemd-helper >/dev/null; then deb-systemd-helper mask verk.service >/dev/null || true; fi
fi
if [ "$1" = purge ]; then
  if command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper purge verk.service >/dev/null || true
    deb-systemd-helper unmask verk.service >/dev/null || true
  fi
  if [ -d /var/lib/verk ]; then
    echo "Kept the data directory /var/lib/verk and the user verk."
  fi
fi
if [ -d /run/systemd/system ]; then systemctl --system daemon-reload >/dev/null || true; fi
`),
} as const;

/** RPM passes the number of installed versions that remain: 0 after the last one is removed. */
export const RPM_SCRIPTS = {
  pre: `${MAKE_USER}exit 0\n`,
  post: `${MAKE_DATA}if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
  if [ "$1" -eq 1 ]; then systemctl preset verk.service || :; fi
fi
exit 0
`,
  preun: `if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
  systemctl disable --now verk.service || :
fi
exit 0
`,
  postun: `if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
  if [ "$1" -ge 1 ]; then systemctl try-restart verk.service || :; fi
fi
exit 0
`,
} as const;

function indented(text: string): string {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => `  ${line}`)
    .join("\n");
}
