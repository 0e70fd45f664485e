// What something outside the store does to it, and what a browser may do: on the real thing.
const open = (name) => new Promise((ok, no) => {
  const request = indexedDB.open(name);
  request.onsuccess = () => ok(request.result);
  request.onerror = () => no(request.error);
});
const answer = (request) => new Promise((ok, no) => {
  request.onsuccess = () => ok(request.result);
  request.onerror = () => no(request.error);
});

async function within(name, change) {
  const database = await open(name);
  const transaction = database.transaction("records", "readwrite");
  const ended = new Promise((ok, no) => {
    transaction.oncomplete = ok;
    transaction.onabort = () => no(transaction.error);
  });
  const changed = await change(transaction.objectStore("records"));
  await ended;
  database.close();
  return changed;
}

// Every row, as [key, value], binary keys as bytes.
export const rows = (name) => within(name, async (store) => {
  const [keys, values] = [store.getAllKeys(), store.getAll()];
  const [k, v] = [await answer(keys), await answer(values)];
  return k.map((key, at) => [key instanceof ArrayBuffer ? new Uint8Array(key) : key, v[at]]);
});
export const put = (name, key, value) => within(name, (store) => answer(store.put(value, key)));
export const take = (name, key) => within(name, (store) => answer(store.delete(key)));

// What the platform was asked since the page began.
const asked = { reads: 0, changes: [], complete: 0 };
export const reads = () => asked.reads;
export const changes = () => asked.changes;
export const complete = () => asked.complete;
for (const call of ["get", "getAll", "getAllKeys", "getKey", "openCursor", "openKeyCursor", "count"]) {
  const real = IDBObjectStore.prototype[call];
  IDBObjectStore.prototype[call] = function (...args) { asked.reads += 1; return real.apply(this, args); };
}

// The request, or the commit, after this many others aborts its transaction.
let plan = null;
export const abortAfter = (requests) => { plan = { left: requests, fired: false }; };
export const healed = () => { const fired = plan?.fired ?? false; plan = null; return fired; };
const strike = (transaction) => {
  if (plan && !plan.fired && plan.left-- === 0) { plan.fired = true; transaction.abort(); }
};
for (const call of ["put", "add", "delete"]) {
  const real = IDBObjectStore.prototype[call];
  IDBObjectStore.prototype[call] = function (...args) {
    const request = real.apply(this, args);
    strike(this.transaction);
    return request;
  };
}
const commit = IDBTransaction.prototype.commit;
IDBTransaction.prototype.commit = function () { strike(this); return commit.call(this); };

let ignores = false;
export const ignoreDurability = (on) => { ignores = on; };
const transaction = IDBDatabase.prototype.transaction;
IDBDatabase.prototype.transaction = function (stores, mode, options) {
  const made = ignores ? transaction.call(this, stores, mode) : transaction.call(this, stores, mode, options);
  if (mode === "readwrite") {
    asked.changes.push(made.durability);
    made.addEventListener("complete", () => { asked.complete += 1; });
  }
  return made;
};

// A page that opened a database and does not let go of it.
export const hold = (name, version, store) => new Promise((ok, no) => {
  const request = indexedDB.open(name, version);
  request.onupgradeneeded = () => { if (store) request.result.createObjectStore(store); };
  request.onsuccess = () => ok(request.result);
  request.onerror = () => no(request.error);
});

// Takes the lock from whoever holds it, and gives it back.
export const steal = (name) => navigator.locks.request(name, { steal: true }, () => {});

// Runs `code`, with `open` in scope, in a frame that has no origin; resolves with what it says.
export const elsewhere = () => new Promise((ok) => {
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  frame.srcdoc = `<script>
    let said;
    try { const r = indexedDB.open("x"); r.onerror = () => parent.postMessage(r.error.name, "*");
      r.onsuccess = () => parent.postMessage("opened", "*"); }
    catch (error) { parent.postMessage(error.name, "*"); }
  </script>`;
  addEventListener("message", (event) => { frame.remove(); ok(event.data); }, { once: true });
  document.body.append(frame);
});

// The page's IndexedDB refuses as a browser does that keeps nothing.
const factory = IDBFactory.prototype.open;
export const refuseToOpen = (name) => {
  IDBFactory.prototype.open = name
    ? function () { throw new DOMException("refused", name); }
    : factory;
};
