import { openS3Storage } from "../../src/platform/storage/s3.ts";
import { describeWith, minio } from "../servers/servers.ts";
import { freshBucket } from "./buckets.ts";
import { storageConformance } from "./conformance.ts";

describeWith("minio", minio, (server) => {
  storageConformance("s3", async () => openS3Storage(await freshBucket(server)));
});
