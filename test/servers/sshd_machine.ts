/** Text for a command `up` that starts a real sshd as a machine of a cloud, on a free port of the loopback device. */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sshdSetup } from "./sshd.ts";

/** `dir`: of the machine's files. The script prints the address as its last line, and writes its process into `pid`. */
export function sshdMachine(dir: string): { up: string; down: string; home: string } {
  mkdirSync(dir, { recursive: true, mode: 0o755 });
  chmodSync(dir, 0o755);
  const { home, user, argv, env } = sshdSetup(dir, "127.0.0.1");
  const words = (port: string) =>
    argv(port)
      .map((word) => (word === port ? port : `'${word}'`))
      .join(" ");
  const settings = Object.entries({ PATH: "/usr/sbin:/usr/bin:/sbin:/bin", ...env })
    .map(([name, value]) => `${name}='${value}'`)
    .join(" ");
  const start = join(dir, "start.sh");
  writeFileSync(
    start,
    ["port=$1", `exec env -i ${settings} ${words("$port")} > '${dir}/log' 2>&1 < /dev/null`, ""].join("\n"),
  );
  const end = `kill -KILL "-$(cat '${dir}/pid')" 2>/dev/null || true`;
  const up = [
    `echo "$VERK_SSH_PUBLIC_KEY" > '${home}/.ssh/authorized_keys'`,
    `port=$((20000 + $$ % 20000))`,
    "while :; do",
    `  setsid sh '${start}' $port & echo $! > '${dir}/pid'`,
    "  for i in $(seq 100); do",
    `    if ssh-keyscan -T 1 -p $port 127.0.0.1 2>/dev/null | grep -q ssh-; then echo "${user}@127.0.0.1:$port"; exit 0; fi`,
    `    kill -0 "$(cat '${dir}/pid')" 2>/dev/null || break`,
    "    sleep 0.1",
    "  done",
    `  ${end}`,
    "  port=$((port + 1))",
    "done",
    "",
  ].join("\n");
  const down = `if [ -f '${dir}/pid' ]; then ${end}; rm -f '${dir}/pid'; fi\n`;
  return { up, down, home };
}
