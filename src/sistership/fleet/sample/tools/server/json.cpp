#include "json.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

// Every member but document() takes what it is named after from where it stands, and returns false when it is not there.
class reader {
  public:
    explicit reader(const std::string & input) : text(input) {}

    bool document(json_object & object) {
        space();
        if (peek() != '{' || !members(object, 0)) {
            return false;
        }
        space();
        return at == text.size();
    }

  private:
    static constexpr int DEPTH_LIMIT = 64;

    // 0 at the end: nothing begins with it.
    char peek() const { return at < text.size() ? text[at] : '\0'; }

    bool take(char wanted) {
        const bool there = peek() == wanted;
        at += there ? 1 : 0;
        return there;
    }

    void space() { at = std::min(text.find_first_not_of(" \t\r\n", at), text.size()); }

    bool word(const char * wanted) {
        const bool there = text.compare(at, strlen(wanted), wanted) == 0;
        at += there ? strlen(wanted) : 0;
        return there;
    }

    bool digits() {
        const size_t begin = at;
        at = std::min(text.find_first_not_of("0123456789", at), text.size());
        return at > begin;
    }

    bool number() {
        take('-');
        if (!take('0') && !digits()) {
            return false;
        }
        if (take('.') && !digits()) {
            return false;
        }
        if (take('e') || take('E')) {
            if (!take('+')) {
                take('-');
            }
            return digits();
        }
        return true;
    }

    // The four digits of \uXXXX.
    bool unit(uint32_t & code) {
        static const std::string DIGITS = "0123456789abcdef0123456789ABCDEF";
        code = 0;
        for (int i = 0; i < 4; i++) {
            const size_t digit = at < text.size() ? DIGITS.find(text[at++]) : std::string::npos;
            if (digit == std::string::npos) {
                return false;
            }
            code = code << 4 | (digit & 15);
        }
        return true;
    }

    // Two units for what lies beyond the first 65536; half a pair is refused.
    bool code_point(uint32_t & code) {
        uint32_t low = 0;
        if (!unit(code) || (code & 0xfc00) == 0xdc00) {
            return false;
        }
        if ((code & 0xfc00) != 0xd800) {
            return true;
        }
        if (!word("\\u") || !unit(low) || (low & 0xfc00) != 0xdc00) {
            return false;
        }
        code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
        return true;
    }

    static void append(std::string & to, uint32_t code) {
        if (code < 0x80) {
            to += static_cast<char>(code);
            return;
        }
        const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        constexpr uint32_t LEAD[] = {0, 0xc0, 0xe0, 0xf0};
        to += static_cast<char>(LEAD[more] | code >> (6 * more));
        for (int i = more - 1; i >= 0; i--) {
            to += static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
        }
    }

    bool escaped(std::string & into) {
        static const std::string NAMES  = "\"\\/bfnrt";
        static const std::string VALUES = "\"\\/\b\f\n\r\t";
        uint32_t code = 0;
        if (take('u')) {
            if (!code_point(code)) {
                return false;
            }
            append(into, code);
            return true;
        }
        const size_t which = at < text.size() ? NAMES.find(text[at++]) : std::string::npos;
        if (which == std::string::npos) {
            return false;
        }
        into += VALUES[which];
        return true;
    }

    bool string(std::string & into) {
        into.clear();
        if (!take('"')) {
            return false;
        }
        while (!take('"')) {
            if (static_cast<unsigned char>(peek()) < ' ') {
                return false;
            }
            if (!take('\\')) {
                into += text[at++];
            } else if (!escaped(into)) {
                return false;
            }
        }
        return true;
    }

    bool members(json_object & object, int depth) {
        take('{');
        space();
        if (take('}')) {
            return true;
        }
        do {
            std::string name;
            json_value  read = {};
            space();
            if (!string(name)) {
                return false;
            }
            space();
            if (!take(':') || !value(read, depth + 1)) {
                return false;
            }
            object[name] = read;
        } while (take(','));
        return take('}');
    }

    bool elements(int depth) {
        take('[');
        space();
        if (take(']')) {
            return true;
        }
        do {
            json_value read = {};
            if (!value(read, depth + 1)) {
                return false;
            }
        } while (take(','));
        return take(']');
    }

    bool bare(int depth) {
        json_object inner;
        switch (peek()) {
            case '{': return members(inner, depth);
            case '[': return elements(depth);
            case 't': return word("true");
            case 'f': return word("false");
            case 'n': return word("null");
            default:  return number();
        }
    }

    // With the space around it.
    bool value(json_value & read, int depth) {
        space();
        const size_t begin = at;
        read.is_string = peek() == '"';
        if (depth > DEPTH_LIMIT || !(read.is_string ? string(read.text) : bare(depth))) {
            return false;
        }
        if (!read.is_string) {
            read.text = text.substr(begin, at - begin);
        }
        space();
        return true;
    }

    const std::string & text;
    size_t at = 0;
};

}  // namespace

bool json_read(const std::string & text, json_object & object) {
    return reader(text).document(object);
}

std::string json_quote(const std::string & text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ') {
            char code[7];
            snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
            quoted += code;
            continue;
        }
        quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
    return quoted + "\"";
}
