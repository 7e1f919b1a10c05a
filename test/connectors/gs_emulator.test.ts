// tier: all (real databases and stores)
import { open } from "../../src/workers/connector/gs.ts";
import { describeWith, gcs, judge } from "../servers/servers.ts";
import { objectStoreTests } from "./object_store_suite.ts";

const bucket = "verk-rows";

/** The emulator, and Google's client, which writes the test data. */
const started = async () => {
  const server = await gcs();
  const { Storage } = await judge("@google-cloud/storage");
  const storage = new Storage({ apiEndpoint: server.url, projectId: server.projectId });
  return { server, storage };
};

describeWith("gs, against Google's emulator", started, ({ server, storage }) => {
  const port = Number(new URL(server.url).port);
  objectStoreTests({
    type: "gs",
    open,
    put: async (key, content) => {
      await storage
        .bucket(bucket)
        .file(key)
        .save(Buffer.from(content as string), { resumable: false });
    },
    uri: (path, through = port) => `gs://${bucket}/${path}?endpoint=http://127.0.0.1:${through}`,
    nowhere: `gs://no-such-bucket/x.jsonl?endpoint=${server.url}`,
    port,
    credentials: { access_token: "MARKED-token" },
    secrets: ["MARKED-token"],
  });
});
