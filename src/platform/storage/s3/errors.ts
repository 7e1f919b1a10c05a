import { StorageError } from "../../files.ts";

/** A fault of the bucket or the settings. `message` is for the operator, `advice` for callers of the API. */
export class BucketError extends StorageError {
  constructor(
    place: string,
    doing: string,
    private readonly fix: string,
    cause: unknown,
  ) {
    super(place, doing, cause);
    this.name = "BucketError";
    this.message = `Cannot ${doing} ${place}: ${fix}`;
  }
  override get advice() {
    return this.fix;
  }
}

const CREDENTIALS =
  "the bucket's server refuses the credentials. Check storage.s3_access_key_id and storage.s3_secret_access_key";
const RIGHTS =
  "these credentials may not do this. Allow them to list the bucket, and to get, put, copy, delete and abort in it";
/** An answer to HEAD has no body that says more. */
const REFUSED =
  "the bucket's server refuses the credentials, or they may not do this. Check storage.s3_access_key_id and storage.s3_secret_access_key, and allow them to list the bucket, and to get, put, copy, delete and abort in it";
const REGION = "the bucket is in another region. Correct storage.s3_region and storage.s3_endpoint";
const FULL = "the bucket's server has no space left. Free some, or raise its quota";

const FIXES: Readonly<Record<string, string>> = {
  NoSuchBucket: "there is no such bucket. Make it, or correct storage.s3_bucket",
  InvalidBucketName: "this is no name of a bucket. Correct storage.s3_bucket",
  SignatureDoesNotMatch: CREDENTIALS,
  InvalidAccessKeyId: CREDENTIALS,
  InvalidToken: CREDENTIALS,
  ExpiredToken: CREDENTIALS,
  AccountProblem: CREDENTIALS,
  AccessDenied: RIGHTS,
  AllAccessDisabled: RIGHTS,
  RequestTimeTooSkewed: "the clocks of this machine and of the bucket's server differ too much. Set them",
  PermanentRedirect: REGION,
  AuthorizationHeaderMalformed: REGION,
  IllegalLocationConstraintException: REGION,
  XMinioStorageFull: FULL,
  XMinioAdminBucketQuotaExceeded: FULL,
  QuotaExceeded: FULL,
  KeyTooLongError: "the name is too long for it. Shorten storage.s3_prefix",
};
const UNREACHABLE = /^(ECONN|EPIPE|ENOTFOUND|EAI_|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)/;
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|TLS/;

type Failure = { name?: string; code?: unknown; message?: string; $metadata?: { httpStatusCode?: number } };

export const statusOf = (error: unknown): number | undefined => (error as Failure | null)?.$metadata?.httpStatusCode;
export const isMissing = (error: unknown) => statusOf(error) === 404 && !isNamed(error, "NoSuchBucket");
export const isNamed = (error: unknown, name: string) => (error as Failure | null)?.name === name;

/** Explains an error of the SDK. `section`: the settings of this bucket; backups name it in `backup.target`. */
export function asBucketError(place: string, doing: string, error: unknown, section = "storage"): BucketError {
  if (error instanceof BucketError) return error;
  const fix = fixFor(error as Failure)
    .replaceAll(/storage\.s3_(bucket|prefix)/g, (name) => (section === "backup" ? "backup.target" : name))
    .replaceAll("storage.s3_", `${section}.s3_`);
  return new BucketError(place, doing, fix, error);
}

function fixFor(error: Failure): string {
  const fix = FIXES[error.name ?? ""];
  if (fix !== undefined) return fix;
  const status = statusOf(error);
  if (status === 401 || status === 403) return REFUSED;
  if (status === 301) return REGION;
  if (status !== undefined) return `its server answered ${status} ${error.name ?? ""}`.trimEnd();
  const code = typeof error.code === "string" ? error.code : "";
  if (CERTIFICATE.test(code))
    return `its server's certificate is not trusted (${code}). Name its authority in network.ca_file`;
  if (UNREACHABLE.test(code) || error.name === "TimeoutError")
    return `its server cannot be reached (${code || error.name}). Check storage.s3_endpoint`;
  return `its server's answer makes no sense (${error.name ?? "Error"}: ${error.message ?? ""})`;
}
