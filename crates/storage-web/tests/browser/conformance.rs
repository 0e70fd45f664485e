//! The shared suite, one test a law, with records in frames, in rows, and in both.

use overlane_core::store::testkit::conformance as law;
use wasm_bindgen_test::wasm_bindgen_test;

use crate::subject;

macro_rules! laws {
    ($subject:ident; $($law:ident)*) => {
        mod $subject {
            use super::*;
            $(
                #[wasm_bindgen_test]
                async fn $law() {
                    if let Err(violation) = law::$law(&subject::$subject()).await {
                        panic!("{violation}");
                    }
                }
            )*
        }
    };
    ($($subject:ident)*) => {
        $(
            laws!(
                $subject;
                law_release law_fail_closed law_isolation law_never_delete law_missing law_own_key
                law_one_scan law_budget law_clear_one law_one_owner
            );
        )*
    };
}

laws!(in_frames in_rows in_both);
