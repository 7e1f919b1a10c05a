/**
 * node gcs_emulator.cjs PACKAGES PORT: Google's storage emulator, without the rest of firebase-tools. The rules of
 * Firebase are left out: they need a program in Java, and the JSON API that we test does not ask them.
 */
const { join } = require("node:path");
const [packages, port] = process.argv.slice(2);
const emulators = (file) => require(join(packages, "firebase-tools/lib/emulator", file));
const { StorageEmulator } = emulators("storage/index.js");
const { EmulatorRegistry } = emulators("registry.js");

class WithoutRules extends StorageEmulator {
  async start() {
    const app = await emulators("storage/server.js").createApp("verk-test", this);
    const server = app.listen(Number(port), "127.0.0.1");
    server.keepAliveTimeout = 600_000; // a client that comes back just when a connection is closed would fail
  }
}

const rules = { name: "storage.rules", content: "" };
EmulatorRegistry.start(new WithoutRules({ projectId: "verk-test", host: "127.0.0.1", port: Number(port), rules }));
