/** The status that reverse proxies log when the client closed its connection first. It never reaches the client. */
export const CLIENT_LEFT_STATUS = 499;

/** The client closed its connection before the answer was complete. */
export class ClientLeft extends Error {
  override name = "ClientLeft";

  constructor(message = "The client left") {
    super(message);
  }
}
