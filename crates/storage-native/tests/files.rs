//! The files store under the conformance suite, one test a law.

use overlane_storage_native::conformance_tests;
use overlane_storage_native::testkit::FilesSubject;

conformance_tests!(FilesSubject);
